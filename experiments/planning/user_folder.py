"""The folder in which the user typed the command. `mlflow run` starts commands in the project's folder instead."""

from __future__ import annotations

import os
from pathlib import Path

from training.contract.errors import InputError

RUN_VARIABLE = "MLFLOW_RUN_ID"
"""Variable that `mlflow run` sets for the commands that it starts."""


def user_folder() -> Path:
    """Return the user's folder: the current one, or under `mlflow run` that of the process of `mlflow run`.

    `mlflow run` passes on no variable with that folder. Its process is the closest ancestor without `RUN_VARIABLE`. If
    the system does not list processes (Linux does), the current folder is returned.
    """
    process = os.getppid() if RUN_VARIABLE in os.environ else 0
    try:
        while process > 1:
            folder = Path("/proc") / str(process)
            variables = (folder / "environ").read_bytes().split(b"\0")
            if not any(each.startswith(f"{RUN_VARIABLE}=".encode()) for each in variables):
                return (folder / "cwd").readlink()
            process = _parent(folder)
    except OSError:
        pass
    return Path.cwd()


def find_in_user_folder(path: Path, kind: str) -> Path:
    """Return a relative path in the user's folder, or else in the current one. An absolute path is not checked.

    Raises InputError with the folders if neither has it. `kind` is the kind of file, for the message.
    """
    if path.is_absolute():
        return path
    folders = list(dict.fromkeys((user_folder(), Path.cwd())))
    for folder in folders:
        if (folder / path).exists():
            return path if folder == Path.cwd() else folder / path
    hint = " `mlflow run` starts commands in the project's folder: use an absolute path." if _is_by_mlflow() else ""
    listed = " nor in ".join(map(str, folders))
    verb = "does not exist in" if len(folders) == 1 else "exists neither in"
    raise InputError(f"{kind} file {str(path)!r} {verb} {listed}.{hint}")


def _parent(process: Path) -> int:
    """Return the parent of a process, given its folder in /proc. The name in parentheses may contain anything."""
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _is_by_mlflow() -> bool:
    return RUN_VARIABLE in os.environ
