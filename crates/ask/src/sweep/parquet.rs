//! A table as a Parquet file.
//!
//! Invariants: equal tables have equal bytes: one row group, a fixed order, and no word of who wrote it
//! or when. Between the columns' data and the file's metadata are 16 bytes that no reader of Parquet
//! looks at, which finds both by offsets: the XXH3-128 of all others, so that damage is found before a
//! decoder meets it.
//!
//! ```text
//! PAR1 | data of the columns | XXH3-128, little-endian | metadata | its length, 4 bytes | PAR1
//! ```

use super::cells::Damage;
use super::columns::{Column, ColumnKind, Value};
use super::row::{Row, Wrong};
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::types::Type;
use std::sync::Arc;
use twox_hash::XxHash3_128;

const MAGIC: &[u8] = b"PAR1";

/// Of the length and the magic behind the metadata.
const TAIL: usize = 8;

const DIGEST: usize = 16;

/// The file's bytes.
pub fn write(columns: &[Column], rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_created_by("slabyard sweep, table 1".into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_max_row_group_row_count(Some(rows.len().max(1)))
        .build();
    let fields: Result<Vec<_>, ParquetError> =
        columns.iter().map(|c| field(c).map(Arc::new)).collect();
    let schema = Type::group_type_builder("sweep").with_fields(fields?).build()?;
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let mut nth = 0;
    while let Some(mut column) = group.next_column()? {
        put(&mut column, columns[nth].kind, rows.iter().map(|row| &row.cells()[nth]))?;
        column.close()?;
        nth += 1;
    }
    group.close()?;
    file.close()?;
    let at = metadata(&bytes).ok_or_else(|| ParquetError::General("no metadata".into()))?;
    let digest = XxHash3_128::oneshot(&bytes).to_le_bytes();
    bytes.splice(at..at, digest);
    Ok(bytes)
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, converted) = match column.kind {
        ColumnKind::Whole => (Physical::INT64, ConvertedType::NONE),
        ColumnKind::Decimal => (Physical::DOUBLE, ConvertedType::NONE),
        ColumnKind::Words => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_converted_type(converted)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

fn put<'a>(
    column: &mut SerializedColumnWriter<'_>,
    kind: ColumnKind,
    cells: impl Iterator<Item = &'a Value> + Clone,
) -> Result<(), ParquetError> {
    let known: Vec<i16> = cells.clone().map(|c| i16::from(*c != Value::Unknown)).collect();
    match kind {
        ColumnKind::Whole => {
            let of = |cell: &Value| if let Value::Whole(n) = cell { Some(*n as i64) } else { None };
            let values: Vec<i64> = cells.filter_map(of).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&known), None)?;
        }
        ColumnKind::Decimal => {
            let of = |cell: &Value| if let Value::Decimal(n) = cell { Some(*n) } else { None };
            let values: Vec<f64> = cells.filter_map(of).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
        }
        ColumnKind::Words => {
            let of = |cell: &Value| match cell {
                Value::Words(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            };
            let values: Vec<ByteArray> = cells.filter_map(of).collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&known), None)?;
        }
    }
    Ok(())
}

/// Where the metadata begins.
fn metadata(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_suffix(MAGIC)?;
    let (rest, length) = rest.split_last_chunk()?;
    rest.len().checked_sub(u32::from_le_bytes(*length) as usize).filter(|at| *at >= MAGIC.len())
}

/// The columns and rows of a file that [`write()`] made.
pub fn read(bytes: Vec<u8>) -> Result<(Vec<Column>, Vec<Row>), Damage> {
    if !is_whole(&bytes) {
        let why = "it is damaged, cut off, or was not written by slabyard sweep";
        return Err(Damage::at("its checksum", why));
    }
    let wrong = |error: ParquetError| Damage::at("its Parquet", error);
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(wrong)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let columns = schema.columns().iter().map(|column| Column {
        name: column.name().into(),
        kind: match column.physical_type() {
            Physical::INT64 => ColumnKind::Whole,
            Physical::DOUBLE => ColumnKind::Decimal,
            _ => ColumnKind::Words,
        },
    });
    let columns = columns.collect();
    let mut rows = Vec::new();
    for (nth, row) in file.get_row_iter(None).map_err(wrong)?.enumerate() {
        let cells = row.map_err(wrong)?.into_columns().into_iter().map(|(_, field)| match field {
            Field::Null => Some(Value::Unknown),
            Field::Long(number) => u64::try_from(number).ok().map(Value::Whole),
            Field::Double(number) => Some(Value::Decimal(number)),
            Field::Str(text) => Some(Value::Words(text)),
            _ => None,
        });
        let cells = cells.collect::<Option<Vec<Value>>>().ok_or(Wrong::Shape);
        rows.push(cells.and_then(Row::checked).map_err(|wrong| Damage::row(nth, wrong))?);
    }
    Ok((columns, rows))
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(at) = metadata(bytes) else { return false };
    let Some((data, told)) = bytes[..at].split_last_chunk::<DIGEST>() else { return false };
    let mut hash = XxHash3_128::new();
    hash.write(data);
    hash.write(&bytes[at..]);
    bytes.len() >= TAIL && hash.finish_128().to_le_bytes() == *told
}
