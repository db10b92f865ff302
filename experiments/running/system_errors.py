"""Turn errors of the operating system and of databases into one sentence: what failed, where, and what to do."""

from __future__ import annotations

import os

from training.state.system_errors import database_hint, system_reason

_DATABASES = {"sqlite3", "sqlalchemy", "alembic"}


def sentence(error: Exception) -> str | None:
    """Return the message for a user, or None if the error is a bug in trainfare."""
    if isinstance(error, OSError):
        path = error.filename2 or error.filename
        subject = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        return f"{system_reason(error, subject=subject)}."
    if type(error).__module__.split(".")[0] in _DATABASES:
        return _database_sentence(error)
    return None


def _database_sentence(error: Exception) -> str:
    from tracking.server.store import database_name
    from training.contract.plain_text import without_secrets

    first = without_secrets((str(error).strip().splitlines() or [type(error).__name__])[0].rstrip("."))
    hint = database_hint(first) or "run the same command again: it resumes"
    return f"a database cannot be used (the tracking database is {database_name()}): {first}; {hint}."
