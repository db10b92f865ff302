"""CoNLL files as people have them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.staging.formats.files import DEFAULT_FORMAT
from training.staging.formats.readers import read_rows, unit_of
from training.staging.sources.data_files import FileRows, find_data_files

COLUMNS = ("tokens", "ner_tags")


def write(folder: Path, content: str, name: str = "rows.conll") -> Path:
    (folder / name).write_text(content)
    return folder / name


def test_four_columns_documents_and_blanks(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n-DOCSTART- -X- -X- O\n\n# NN B-NP O"
    path = write(tmp_path, content)
    assert list(read_rows(path, COLUMNS)) == [(3, [["EU", "rejects"], ["B-ORG", "O"]]), (9, [["#"], ["O"]])]
    assert [values for _, values in read_rows(path, COLUMNS[:1])] == [[["EU", "rejects"]], [["#"]]]
    assert unit_of(path, COLUMNS) == "line"


def test_lines_with_blanks_and_tabs_alone_end_a_sentence(tmp_path: Path) -> None:
    content = "# id 5 domain=en\nNew York\tB-x\r\n\u00a0\tO\r\n\t\r\na\tO\t\n \t \nb O\n"
    path = tmp_path / "rows.conll.gz"
    path.write_bytes(gzip.compress(content.encode()))
    assert list(read_rows(path, COLUMNS)) == [
        (2, [["New York", "\u00a0"], ["B-x", "O"]]),
        (5, [["a"], ["O"]]),
        (7, [["b"], ["O"]]),
    ]


def test_a_line_without_a_tag_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tO\nb\t\n")
    with pytest.raises(
        InputError, match=r"rows\.conll line 2 has only 'b', but a line needs a word and a tag, separated"
    ):
        list(read_rows(path, COLUMNS))


def test_sentences_of_several_files_have_their_lines(tmp_path: Path) -> None:
    for name in ("a.conll", "b.conll"):
        write(tmp_path, "\nx O\ny O\n\nz O\n", name)
    rows = FileRows(find_data_files(str(tmp_path)), COLUMNS, DEFAULT_FORMAT)
    assert [rows.location(number).removeprefix(f"{tmp_path}/") for number, _ in rows] == [
        "a.conll line 2",
        "a.conll line 5",
        "b.conll line 2",
        "b.conll line 5",
    ]


def test_wnut_2017(shared: Path) -> None:
    """Most sentences of the training file end with a line that holds a tab alone."""
    counts = {}
    for part in ("train", "dev", "test"):
        rows = [values for _, values in read_rows(shared / "data" / f"wnut17-{part}.conll.gz", COLUMNS)]
        counts[part] = len(rows)
        assert len({tag for _, tags in rows for tag in tags}) == 13
    assert counts == {"train": 3_394, "dev": 1_009, "test": 1_287}
