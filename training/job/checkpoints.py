"""Checkpoints that are whole: each lists its files, last of all, and one that lacks any of them is passed over."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, List, Optional, Tuple

PREFIX = "checkpoint-"
PROGRESS = "progress.json"


@dataclass(frozen=True)
class Progress:
    """How far a training had come."""

    step: int
    """Optimizer steps."""
    samples: int
    """Seen by all devices."""
    seconds: float
    """That the job's processes had spent, over all starts."""


NO_PROGRESS = Progress(step=0, samples=0, seconds=0.0)


def complete(folder: Path, progress: Progress) -> None:
    """Say that a checkpoint's files are all written; until then it counts as torn."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    text = json.dumps({**asdict(progress), "files": sizes})
    unfinished = folder / f".{PROGRESS}"
    unfinished.write_text(text, "utf-8")
    unfinished.replace(folder / PROGRESS)


def newest(folder: Path, note: Callable[[str], None] = lambda _: None) -> Optional[Tuple[Path, Progress]]:
    """Return the newest whole checkpoint and its progress, or None; tells of each torn one that is passed over."""
    for checkpoint in _newest_first(folder):
        progress = _progress_of(checkpoint)
        if progress is not None:
            return checkpoint, progress
        note(f"checkpoint {checkpoint.name} is not whole and is passed over")
    return None


def remove_older(folder: Path, keep: Optional[int]) -> None:
    """Remove all but the newest `keep` whole checkpoints, and what is torn; None keeps all.

    Trainer's own rotation would remove the last whole checkpoint before the next one is whole.
    """
    if keep is None:
        return
    whole = [checkpoint for checkpoint in _newest_first(folder) if _progress_of(checkpoint) is not None]
    for checkpoint in set(_newest_first(folder)) - set(whole[:keep]):
        shutil.rmtree(checkpoint)


def _newest_first(folder: Path) -> List[Path]:
    found = [path for path in folder.glob(f"{PREFIX}*") if path.is_dir() and path.name[len(PREFIX) :].isdigit()]
    return sorted(found, key=lambda path: int(path.name[len(PREFIX) :]), reverse=True)


def _progress_of(checkpoint: Path) -> Optional[Progress]:
    """Return a whole checkpoint's progress, or None for a torn one."""
    try:
        said = json.loads((checkpoint / PROGRESS).read_text("utf-8"))
        whole = all((checkpoint / name).stat().st_size == size for name, size in said["files"].items())
        return Progress(said["step"], said["samples"], said["seconds"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
