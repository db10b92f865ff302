"""Where state stands on this machine: jobs, staged data, the compiler's cache."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote


def home() -> Path:
    """Return the state folder, absolute: `TRAINFARE_HOME`, else `.trainfare` beside the SQLite tracking database.

    With a tracking server, where no database file tells the place, it is `~/.trainfare`.
    """
    if given := os.environ.get("TRAINFARE_HOME"):
        return Path(given).expanduser().absolute()
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        return Path.cwd() / ".trainfare"
    if uri.startswith("sqlite:///"):
        return Path(unquote(uri.removeprefix("sqlite:///"))).absolute().parent / ".trainfare"
    return Path.home() / ".trainfare"
