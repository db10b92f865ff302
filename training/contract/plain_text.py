"""Make text from jobs, servers and users safe to show: without secrets, control characters and Markdown's markup.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Sequence that colours a terminal's text or moves its cursor."""
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tabs and line ends, changes of the writing direction, and halves of surrogate pairs."""
_ADDRESS = re.compile(r"(?<=://)[^\s\"'<>]+")
"""Address in text, behind its scheme."""
_HOST = re.compile(r"(localhost|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)?")
_QUERY = re.compile(r"(?<=[\w/.])\?(?=[\w.%-]{1,64}=)[^\s\"'<>]+")
"""Query of an address that is printed without its host."""
_MARKS = re.compile(r"([?&;#])")
_SHORTEST_SECRET = 3
"""Shorter passwords would also be parts of harmless words."""
_PATTERNS = (
    r"hf_[A-Za-z0-9]{20,}",
    r"(AKIA|ASIA)[A-Z0-9]{16}",
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"sk-[A-Za-z0-9_-]{20,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.",
)
"""Tokens of Hugging Face, AWS, GitHub, GitLab, OpenAI and Slack, private keys, and JSON web tokens."""
_VALUE = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(_PATTERNS)})")
_SECRET_WORDS = frozenset({"password", "passwd", "passphrase", "secret", "apikey", "credential", "credentials"})
_KEY_WORDS = frozenset({"api", "access", "secret", "private", "auth", "wandb", "openai", "comet"})
_TOKEN_WORDS = frozenset(
    {"hf", "hub", "auth", "access", "api", "bearer", "refresh", "session", "security", "github", "wandb", "id"}
)
"""Words before `token` that make it a secret, as opposed to `pad_token` or `placeholder_token`."""
_OPAQUE = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[A-Za-z0-9_.+/=-]{16,}")
"""Text like a random token: long, without blanks and brackets, with letters and digits."""


def size_text(size_bytes: float) -> str:
    """Return a number of bytes as text with three digits, such as `900 bytes`, `1.5 KiB` or `12 GiB`."""
    size, units = float(size_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:.0f} {units[0]}"


def duration_text(seconds: float) -> str:
    """Return a duration as text with one unit, such as `41 s`, `7 min` or `2.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def without_control_characters(text: str) -> str:
    """Return the text without effect on terminals, in a form that files and databases can store.

    Colours are removed, and a carriage return ends the line. All other control characters are replaced by their escape,
    such as `\\u0000`, which means the same in JSON.
    """
    text = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def without_markup(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged: no link, picture, table or heading."""
    line = " ".join(without_control_characters(text).split())
    escaped = "".join(f"\\{char}" if char in r"\`*_[]|#$~" else char for char in line)
    escaped = escaped.replace("://", "\\://").replace("www.", "www\\.")
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def without_secrets(text: str, uri: str = "") -> str:
    """Return the text without user names, passwords and tokens in its addresses.

    `uri` is the address that the text is about, if that is known: its password or token is removed wherever it stands
    and whatever it contains. In other addresses, passwords may contain `/`, `@`, `?` and `#`: everything up to the last
    `@` of an address is removed, unless a host name without a port comes first, as in `https://github.com/org/name@v1`.
    The values of a query are replaced by `***`, because any name may stand before a token.

    The time grows in proportion to the length of the text.
    """
    for secret, shown in _known(uri):
        text = text.replace(secret, shown)
    text = _ADDRESS.sub(lambda match: _without_values(_without_user(match[0])), text)
    return _QUERY.sub(lambda match: _without_values(match[0]), text)


def _known(uri: str) -> Iterator[tuple[str, str]]:
    """Yield an address and its password or token, each with what replaces it."""
    scheme, sign, rest = uri.partition("://")
    if not sign:
        return
    shown = _without_values(_without_user(rest))
    yield uri, f"{scheme}://{shown}"
    name, colon, password = rest[: len(rest) - len(_without_user(rest))].removesuffix("@").partition(":")
    # The name of a user who has a password is not secret, nor is the name of a user of a database.
    secret = password if colon else name if scheme.startswith("http") else ""
    for text in sorted({secret, quote(secret, safe=""), unquote(secret)}, key=len, reverse=True):
        if len(text) >= _SHORTEST_SECRET:
            yield text, HIDDEN


def _without_user(rest: str) -> str:
    before, sign, after = rest.rpartition("@")
    if not sign:
        return rest
    first = re.split(r"[/?#]", before, maxsplit=1)
    is_host = len(first) > 1 and _HOST.fullmatch(first[0])
    return rest if is_host else after


def _without_values(rest: str) -> str:
    """Replace the values of a query, also of one in the fragment. A fragment that is one word is not a secret."""
    path, *items = _MARKS.split(rest)
    shown, is_query = path, False
    for mark, item in zip(items[::2], items[1::2], strict=True):
        is_query = is_query or mark == "?"
        name, sign, value = item.partition("=")
        if sign:
            item = f"{name}={HIDDEN if value else ''}"
        elif is_query and any(map(str.isalnum, name)):
            item = HIDDEN
        shown += mark + item
    return shown


def counted(count: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`, `1,000 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_likely_secret(name: str, value: Any) -> bool:
    """Return whether a value, or a part of it, is likely to be a secret. It must not be written to logs or requests.

    A name alone is not enough for words such as `pad_token`, and a value alone only if it has the pattern of a known
    kind of token. `$NAME` refers to a field and is none.
    """
    return next(likely_secret_texts(name, value), None) is not None


def likely_secret_texts(name: str, value: Any) -> Iterator[str]:
    """Yield the texts of a value, and of the lists and mappings in it, that are likely to be secrets."""
    return (text for key, text in _texts(name, value) if _is_secret(key, text))


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(str(key), each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(name, each)
    elif isinstance(value, str) and value.strip():
        yield name, value.strip()


def _is_secret(name: str, text: str) -> bool:
    if _VALUE.search(text):
        return True
    if "@" in text and re.search(r"://[^\s/@:]+:[^\s@]+@", text) and without_secrets(text) != text:
        return True  # an address with a user name and a password
    if text.startswith(("$", "/", "./", "~/")):  # a field of the experiment or the path of a file
        return False
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]
    last, before = (["", "", *words])[-1], (["", "", *words])[-2]
    if last in _SECRET_WORDS or (last == "key" and before in _KEY_WORDS):
        return True
    if last == "id" and before == "key" and "access" in words:
        return True
    if last != "token":
        return False
    return before in _TOKEN_WORDS or len(words) == 1 or _OPAQUE.fullmatch(text) is not None
