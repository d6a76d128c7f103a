//! A table that Arrow's readers take as it is, by the
//! [PyCapsule interface](https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html):
//! pyarrow, Polars, pandas, DuckDB and others.
//!
//! [`as_table`] lets a class with several tables be taken as one of them. Invariant: a reader gets the
//! table's own buffers, however often it asks.

use crate::error::cannot;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// Rows with named columns, as Arrow keeps them: `polars.DataFrame(table)` or `pyarrow.table(table)`
/// take it without copying its numbers.
#[pyclass(frozen, module = "slabyard")]
#[derive(Clone)]
pub struct Table(RecordBatch);

impl Table {
    /// Rows as they are.
    pub fn of(rows: RecordBatch) -> Table {
        Table(rows)
    }

    fn values<'py>(&self, py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyList>> {
        let rows = 0..column.len();
        let there = |row: &usize| column.is_valid(*row);
        match column.data_type() {
            DataType::UInt64 => {
                let values = column.as_primitive::<UInt64Type>();
                PyList::new(py, rows.map(|row| there(&row).then(|| values.value(row))))
            }
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>();
                PyList::new(py, rows.map(|row| there(&row).then(|| values.value(row))))
            }
            DataType::Float64 => {
                let values = column.as_primitive::<Float64Type>();
                PyList::new(py, rows.map(|row| there(&row).then(|| values.value(row))))
            }
            DataType::Boolean => {
                let values = column.as_boolean();
                PyList::new(py, rows.map(|row| there(&row).then(|| values.value(row))))
            }
            _ => {
                let values = column.as_string::<i32>();
                PyList::new(py, rows.map(|row| there(&row).then(|| values.value(row))))
            }
        }
    }
}

#[pymethods]
impl Table {
    /// The table as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema = None))]
    pub fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer give what it has.
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The schema by Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(cannot)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of a column; `None` where one is unknown.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.0.column_by_name(name).ok_or_else(|| {
            let text = format!("no column `{name}`; columns: {}", self.column_names().join(", "));
            PyKeyError::new_err(text)
        })?;
        self.values(py, column)
    }

    /// The rows as dictionaries, for programs without a library of tables.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows: Vec<_> = (0..self.0.num_rows()).map(|_| PyDict::new(py)).collect();
        for (field, column) in self.0.schema_ref().fields().iter().zip(self.0.columns()) {
            for (row, value) in rows.iter().zip(self.values(py, column)?.iter()) {
                row.set_item(field.name(), value)?;
            }
        }
        Ok(rows)
    }

    pub fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<slabyard.Table: {} rows of {names}>", self.0.num_rows())
    }
}

/// Readers take an object of a class as one of its tables.
macro_rules! as_table {
    ($class:ident, $table:ident) => {
        #[pymethods]
        impl $class {
            /// The rows as a stream of Arrow's C interface.
            #[pyo3(signature = (requested_schema = None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: Python<'py>,
                requested_schema: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, pyo3::types::PyCapsule>> {
                self.$table.__arrow_c_stream__(py, requested_schema)
            }

            fn __len__(&self) -> usize {
                self.$table.__len__()
            }
        }
    };
}
pub(crate) use as_table;
