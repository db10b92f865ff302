"""Folders on this machine: the state folder with jobs and staged data, the compile cache, and the slots of cores."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path
from urllib.parse import unquote

from state.digests import digest
from state.errors import InputError, system_reason
from state.permissions import reason_against
from state.regular_files import user_path

SLOTS_VARIABLE = "TRAINFARE_SLOTS"


def home() -> Path:
    """Return the state folder as an absolute path.

    It is `TRAINFARE_HOME` if that is set, or else `.trainfare` in the folder of the SQLite tracking database. With a
    tracking server, whose database is not a local file, it is `~/.trainfare`.
    """
    if path := os.environ.get("TRAINFARE_HOME"):
        return user_path(path, "TRAINFARE_HOME").absolute()
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        return Path.cwd() / ".trainfare"
    if uri.startswith("sqlite:///"):
        return Path(unquote(uri.removeprefix("sqlite:///").partition("?")[0])).absolute().parent / ".trainfare"
    return Path.home() / ".trainfare"


def home_id(home: Path) -> str:
    """Return the id of a state folder, which differs between folders and machines. A folder without one gets one.

    Raises InputError for a damaged id.
    """
    path = home / "id"
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        own = home / f".id-{uuid.uuid4().hex}"
        own.write_text(uuid.uuid4().hex)
        with contextlib.suppress(FileExistsError):  # another process was faster
            path.hardlink_to(own)
        own.unlink()
    text = path.read_text("ascii", "replace")
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        raise InputError(
            f"{path} is damaged, because it is not 32 hexadecimal digits: delete it, and it is made again."
        )
    return text


def compile_cache(home: Path) -> Path:
    """Return the folder of inductor's compile cache, which is the same for the same `home`.

    torch 2.13 splits the C++ compiler's command at spaces and quotes. If the path contains such characters, or if other
    users could replace files in it, the cache is in `XDG_CACHE_HOME` or `~/.cache`: its compiled code is executed.
    Raises InputError if both folders cannot be used.
    """
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "trainfare"
    name = digest(os.fsencode(home / "compile-cache"), 16)
    problems = []
    for folder in (home / "compile-cache", own / f"compile-cache-{name}"):
        if not re.fullmatch(r"[A-Za-z0-9_./+-]+", str(folder)):
            problems.append("torch cannot compile in paths with blanks or quotes")
        elif unsafe := reason_against(folder):
            problems.append(unsafe)
        else:
            return folder
    raise InputError(
        f"the compile cache cannot be in {home} ({problems[0]}), nor in {own} ({problems[1]}): set TRAINFARE_HOME to a "
        "folder of your own whose path has no blanks and quotes."
    )


def check_compile_cache(folder: Path, *, create: bool = True) -> None:
    """Raise InputError if the folder of a compile cache is not safe. `create` makes it, for this user only."""
    _check_folder(folder, f"the compile cache {folder}", "compiled code, which is executed", "TRAINFARE_HOME", create)


def slots_folder(*, create: bool = True) -> Path:
    """Return the folder with the locks of this machine's cores and GPUs, which the jobs of all state folders share.

    It is `TRAINFARE_SLOTS`, which several users can share, or else a folder of this user, in `XDG_RUNTIME_DIR` or in
    `~/.cache`. `create` makes it, for this user only. Raises InputError if another user could replace its files.
    """
    if path := os.environ.get(SLOTS_VARIABLE):
        folder, name = user_path(path, SLOTS_VARIABLE).absolute(), f"{SLOTS_VARIABLE} {path}"
    elif (path := os.environ.get("XDG_RUNTIME_DIR")) and Path(path).is_dir():
        folder, name = Path(path) / "trainfare-slots", f"{path}/trainfare-slots (in XDG_RUNTIME_DIR)"
    else:
        folder = Path.home() / ".cache" / "trainfare" / "slots"
        name = str(folder)
    _check_folder(folder, name, "the locks of cores and GPUs", SLOTS_VARIABLE, create, own_group=False)
    return folder


def _check_folder(
    folder: Path, name: str, purpose: str, variable: str, create: bool, *, own_group: bool = True
) -> None:
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unsafe = reason_against(folder, own_group=own_group)
    except OSError as error:
        raise InputError(f"{name} cannot be used for {purpose}: {system_reason(error, variable=variable)}.") from error
    if unsafe:
        raise InputError(f"{name} is not safe for {purpose}: {unsafe}; or set {variable} to a folder of your own.")
