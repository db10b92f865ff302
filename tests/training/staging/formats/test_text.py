"""Text in other encodings than UTF-8 is read with the encoding's name, and refused without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.staging.formats.readers import read_rows
from training.staging.formats.text import TextFormat, delimiter_character, encoding_name

TEXT = "text,label\nschön – naïve,1\n“Größe” €,0\n"
ROWS = [(2, ["schön – naïve", "1"]), (3, ["“Größe” €", "0"])]


def read(path: Path, encoding: str | None = None) -> list[tuple[int, list[str]]]:
    text = TextFormat() if encoding is None else TextFormat(encoding=encoding_name(encoding))
    return list(read_rows(path, ["text", "label"], text))


def refused(path: Path, encoding: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(path, encoding)
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "UTF-16BE", "cp1252"])
def test_text_is_read_with_the_name_of_its_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode(encoding))
    assert read(path, encoding) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", TEXT.encode("utf-16"), "FILE begins with the byte order mark of UTF-16; set data.encoding to utf-16"),
        ("a.csv", TEXT.encode("utf-16-le"), "FILE looks like UTF-16; set data.encoding to utf-16-le"),
        (
            "a.csv",
            TEXT.encode("cp1252"),
            "FILE line 2 is not UTF-8: byte 0xf6 at column 4 is invalid; set data.encoding to the file's encoding, "
            "such as cp1252",
        ),
    ],
)
def test_other_text_is_refused_with_the_encoding_to_try(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path) == message


def test_text_in_another_encoding_than_the_named_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode())
    assert refused(path, "latin-1") == "FILE is UTF-8, not iso8859-1; remove data.encoding"
    path.write_bytes(TEXT.encode("cp1252"))
    assert refused(path, "ascii") == (
        "FILE line 2 is not ascii: byte 0xf6 at column 4 is invalid; correct data.encoding"
    )
    path.write_bytes("text,label\na,1\n".encode("utf-16-le") + b"a")
    assert refused(path, "utf-16-le").startswith("FILE is not utf-16-le: truncated data; correct data.encoding")


@pytest.mark.parametrize("name", ["utf-61", "zip", "idna", "a\0"])
def test_names_that_are_no_encodings_of_text_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not an encoding of text, such as utf-8, utf-16, latin-1"):
        encoding_name(name)


def test_all_names_of_an_encoding_are_known() -> None:
    assert len({encoding_name(name) for name in ("latin-1", "ISO-8859-1", "latin1")}) == 1


def test_a_delimiter_is_one_character() -> None:
    assert [delimiter_character(name) for name in (";", "tab", "\\t", "\t")] == [";", "\t", "\t", "\t"]
    for name in ("", ";;", '"', "\n"):
        with pytest.raises(ValueError, match="a delimiter must be one character"):
            delimiter_character(name)
