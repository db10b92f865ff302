"""Names of encodings and delimiters. `tests.support.corpus` has text in several encodings."""

from __future__ import annotations

import pytest

from training.staging.formats.files import delimiter_character, encoding_name


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
