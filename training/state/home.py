"""Where state stands on this machine: jobs, staged data, the compiler's cache."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
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


def compile_cache(home: Path) -> Path:
    """Return the folder where inductor keeps what it compiled, the same for the same `home`.

    torch 2.13 splits the C++ compiler's command at blanks and quotes, so where `home` holds any, the cache stands in
    the folder for temporary files instead.
    """
    folder = home / "compile-cache"
    if re.fullmatch(r"[A-Za-z0-9_./+-]+", str(folder)):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"trainfare-compile-cache-{os.getuid()}-{name}"
