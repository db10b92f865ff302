"""Encoding and delimiter of text files."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from training.contract.errors import nearest

UTF8 = "utf-8"
NOT_OF_FILES = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Encodings of Python that data files do not have."""
COMMON_ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252", "cp1251", "gb18030", "shift_jis", "euc-kr", "big5")


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """Properties of text files that their content does not show for certain."""

    encoding: str = UTF8
    """Encoding, as `encoding_name` returns it."""
    delimiter: str | None = None
    """Character between the fields of a table; None finds it in the header."""
    prefix: str = "data."
    """Text before the names of these fields in messages."""

    @property
    def identity(self) -> str:
        """Text that differs between formats that give different rows; empty for the default."""
        encoding = "" if self.encoding == UTF8 else f" encoding {self.encoding}"
        return encoding + ("" if self.delimiter is None else f" delimiter {self.delimiter!r}")


DEFAULT_FORMAT = TextFormat()


def encoding_name(name: str) -> str:
    """Return Python's name of an encoding. Raises ValueError for a name that is not one of a text encoding."""
    try:
        "".encode(name)
        known = codecs.lookup(name).name
    except (LookupError, ValueError):  # ValueError: the name contains a NUL.
        known = ""
    if not known or known.replace("-", "_") in NOT_OF_FILES:
        listed, hint = ", ".join(COMMON_ENCODINGS), nearest(name, COMMON_ENCODINGS)
        raise ValueError(f"{name[:60]!r} is not an encoding of text, such as {listed}.{hint}")
    return UTF8 if known == "utf-8-sig" else known


def delimiter_character(name: str) -> str:
    """Return a delimiter. `tab` and `\\t` stand for a tab. Raises ValueError for anything that cannot be one."""
    character = "\t" if name in {"tab", "\\t"} else name
    if len(character) != 1 or character in '"\r\n\0':
        raise ValueError(f"a delimiter must be one character, such as ; or | or tab, not {name[:20]!r}")
    return character
