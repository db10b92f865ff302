"""Recognize values that are likely to be secrets. They must not be written to requests, logs and the tracking server.

A name alone is not enough for words such as `pad_token`, and a value alone only if it has the pattern of a known kind
of token. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from training.contract.plain_text import without_secrets

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


def is_likely_secret(name: str, value: Any) -> bool:
    """Return whether a value, or a part of it, is likely to be a secret. `$NAME` refers to a field and is none."""
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
