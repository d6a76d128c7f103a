"""Tables reach Polars, pandas and pyarrow without a copy of their numbers."""

import pandas
import polars
import pyarrow
import pytest
import slabyard

NUMBERS = ["after_bytes", "peak"]


def address(column: pyarrow.ChunkedArray | pyarrow.Array) -> int:
    """Where the numbers of a column are, which is in one piece."""
    array = column.chunks[0] if isinstance(column, pyarrow.ChunkedArray) else column
    return array.buffers()[1].address + array.offset * 8


@pytest.fixture(scope="module")
def caches(guest: slabyard.Trace) -> slabyard.Table:
    return guest.replay().caches


def test_every_reader_gets_the_same_buffers(caches: slabyard.Table) -> None:
    first, second = pyarrow.table(caches), pyarrow.table(caches)
    for name in NUMBERS:
        assert address(first[name]) == address(second[name])


def test_polars_copies_no_number(caches: slabyard.Table) -> None:
    frame, table = polars.DataFrame(caches), pyarrow.table(caches)
    assert frame.height == len(caches) > 50
    for name in NUMBERS:
        assert address(frame[name].to_arrow()) == address(table[name])
        assert frame[name].to_list() == caches.column(name)


def test_pandas_copies_no_number(caches: slabyard.Table) -> None:
    table = pyarrow.table(caches)
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    for name in NUMBERS:
        assert address(frame[name].array.__arrow_array__()) == address(table[name])
        assert frame[name].tolist() == caches.column(name)
    assert list(pandas.DataFrame.from_arrow(caches)["name"]) == caches.column("name")


def test_a_copy_has_other_buffers(caches: slabyard.Table) -> None:
    """The comparison of addresses notices a copy."""
    table = pyarrow.table(caches)
    copy = pyarrow.array(table["peak"].to_pylist(), pyarrow.uint64())
    assert copy.buffers()[1].address != address(table["peak"])


def test_unknown_is_null(guest: slabyard.Trace) -> None:
    table = pyarrow.table(guest.replay().caches)
    assert table["left_out"].null_count > 0
    assert table.schema.field("peak").type == pyarrow.uint64()


def test_a_table_outlives_its_maker(guest_file) -> None:
    def numbers() -> pyarrow.Table:
        return pyarrow.table(slabyard.open(guest_file).replay().caches)

    table = numbers()
    assert sum(table["peak"].to_pylist()) > 0


def test_a_table_serves_without_a_library(caches: slabyard.Table) -> None:
    rows = caches.rows()
    assert [row["name"] for row in rows] == caches.column("name")
    assert list(rows[0]) == caches.column_names
    with pytest.raises(KeyError, match="no column `nothing`; columns: name, "):
        caches.column("nothing")
    assert repr(caches).startswith(f"<slabyard.Table: {len(rows)} rows of name, ")
