"""Test the sizes in Parquet footers, and footers on which pyarrow ends its process."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.contract.errors import InputError
from training.staging.formats.expansion import Expansion
from training.staging.formats.parquet import parquet_rows
from training.staging.formats.parquet_footer import FooterSize, read_footer_size
from training.staging.formats.text_format import DEFAULT_FORMAT


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    columns = {"text": ["good", "bad", "fair"], "label": ["a", "b", "a"], "tags": [[1, 2], [3], [4, 5, 6]]}
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    return path


def test_the_size_is_that_of_the_chosen_columns(table: Path) -> None:
    text, tags = (read_footer_size(table, [name]) for name in ("text", "tags"))
    # Three texts of 11 bytes with lengths of four bytes each; six values in lists.
    assert text.rows == 3
    assert text.text_bytes >= 11 + 3 * 4
    assert tags.rows == 6
    assert read_footer_size(table, ["text"], table.read_bytes()) == text
    assert read_footer_size(table, ["absent"]) == FooterSize(rows=0, text_bytes=0)


def damaged(content: bytes) -> bytes:
    """Return the file with a schema that calls the text column required, as one flipped bit does.

    The footer still counts the levels of an optional column. In compact Thrift, 0x25 0x02 is the repetition type
    OPTIONAL, and 0x18 0x04 begins the column's name.
    """
    before, after = b"\x25\x02\x18\x04text", b"\x25\x00\x18\x04text"
    assert content.count(before) == 1
    return content.replace(before, after)


def test_a_footer_on_which_pyarrow_aborts_is_refused(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(damaged(table.read_bytes()))
    with pytest.raises(InputError, match=r"damaged\.parquet is not a valid Parquet file: .*histogram"):
        list(parquet_rows(path, ["text"], Expansion(path, 100.0), DEFAULT_FORMAT))
    packed = tmp_path / "damaged.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match="is not a valid Parquet file"):
        list(parquet_rows(packed, ["text"], Expansion(packed, 100.0), DEFAULT_FORMAT))


def test_a_footer_after_a_damaged_one_is_read(table: Path, tmp_path: Path) -> None:
    path, size = tmp_path / "damaged.parquet", read_footer_size(table, ["text"])
    path.write_bytes(damaged(table.read_bytes()))
    for _ in range(2):
        with pytest.raises(ValueError, match="Definition level histogram size mismatch"):
            read_footer_size(path, ["text"])
        assert read_footer_size(table, ["text"]) == size
    with pytest.raises(ValueError, match="No such file"):
        read_footer_size(tmp_path / "absent.parquet", ["text"])
    assert read_footer_size(table, ["text"]) == size
