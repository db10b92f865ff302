"""Make text from jobs, servers and users safe to show: without secrets in addresses, and without Markdown's markup."""

from __future__ import annotations

import re

HIDDEN = "***"

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<rest>[^\s\"'<>]*)")
_HOST = re.compile(r"(localhost|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)?")
_QUERY_VALUE = re.compile(r"(?<==)[^&;#]+")


def without_secrets(text: str) -> str:
    """Return the text without user names, passwords and tokens in its addresses.

    Passwords may contain `/`, `@`, `?` and `#` unescaped: everything up to the last `@` of an address is removed,
    unless a host name without a port comes first, as in `https://github.com/org/name@v1`. The values of a query are
    replaced by `***`, because any name may stand before a token.
    """
    return _ADDRESS.sub(lambda match: match["scheme"] + _without_query(_without_user(match["rest"])), text)


def _without_user(rest: str) -> str:
    before, sign, after = rest.rpartition("@")
    if not sign:
        return rest
    first = re.split(r"[/?#]", before, maxsplit=1)
    is_host = len(first) > 1 and _HOST.fullmatch(first[0])
    return rest if is_host else after


def _without_query(rest: str) -> str:
    path, sign, query = rest.partition("?")
    return f"{path}?{_QUERY_VALUE.sub(HIDDEN, query)}" if sign else rest


def without_markup(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged: no link, picture, table or heading."""
    escaped = "".join(f"\\{char}" if char in r"\`*_[]|#$~" else char for char in " ".join(text.split()))
    escaped = escaped.replace("://", "\\://").replace("www.", "www\\.")
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
