"""Source of our own jobs: `train.py`, and beside it the package that it starts.

Jobs run a copy in the state folder, named after its content, so an update of trainfare changes no job that is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from state.digests import KEY_CHARACTERS, digest
from state.folders import is_usable, new_folder

TRAINING = Path(__file__).resolve().parents[2] / "training"


@cache
def _contents() -> dict[str, bytes]:
    """Return the content of each file, by its path in the source."""
    package = {f"training/{path.relative_to(TRAINING)}": path for path in sorted((TRAINING / "job").rglob("*.py"))}
    files = {"train.py": TRAINING / "train.py", "training/__init__.py": TRAINING / "__init__.py", **package}
    return {name: path.read_bytes() for name, path in files.items()}


@cache
def source_digest() -> str:
    """Return the hash of the job's source code. After a change, the same settings are new jobs."""
    return digest(b"".join(name.encode() + b"\0" + content + b"\0" for name, content in _contents().items()))


def job_source(home: Path) -> Path:
    """Return the folder with the source in a state folder. `make_job_source` makes it."""
    return home / "sources" / source_digest()[:KEY_CHARACTERS]


def make_job_source(home: Path, echo: Callable[[str], None] = lambda _: None) -> Path:
    """Return the folder with the source, made unless it exists. `echo` reports a copy that is damaged."""
    folder = job_source(home)
    if not is_usable(folder, echo):
        with new_folder(folder) as unfinished:
            for name, content in _contents().items():
                (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
                (unfinished / name).write_bytes(content)
    return folder
