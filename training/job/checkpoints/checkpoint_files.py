"""Checkpoints that are whole: written under another name and renamed once all of their files are there.

The list of files in each, written last of all, stays as the proof of wholeness in stores that copy file by file.
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

PREFIX = "checkpoint-"
PROGRESS = "progress.json"
UNFINISHED = ".unfinished"
"""Folder within that of the checkpoints in which the next one is written."""


@dataclass(frozen=True)
class Progress:
    """How far a training had come."""

    step: int
    """Optimizer steps."""
    samples: int
    """Seen by all devices."""
    seconds: float
    """That the job's processes had spent, over all starts."""
    identity: Dict[str, Any] = field(default_factory=dict)
    """What makes it this training and no other, by name."""
    owes_evaluation: bool = False
    """Whether this step was to be evaluated, and was not because the job had to stop."""
    best: Optional[Dict[str, Any]] = None
    """Fields of the best evaluation so far (see `best`)."""
    target: Optional[Dict[str, Any]] = None
    """Fields of the target (see `target`)."""


NO_PROGRESS = Progress(step=0, samples=0, seconds=0.0)


def unfinished(folder: Path) -> Path:
    """Return the folder in which a checkpoint is written until it is whole."""
    return folder / UNFINISHED


def of_step(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step stands, as Trainer names it."""
    return folder / f"{PREFIX}{step}"


def finish(folder: Path, progress: Progress) -> None:
    """Say that the files of the checkpoint of this step are all written: it becomes one of the folder's."""
    written, checkpoint = of_step(unfinished(folder), progress.step), of_step(folder, progress.step)
    complete(written, progress)
    if checkpoint.exists():
        # Only a torn one can be there: training goes on from the newest that is whole.
        shutil.rmtree(checkpoint)
    written.replace(checkpoint)
    unfinished(folder).rmdir()


def complete(checkpoint: Path, progress: Progress) -> None:
    """List a checkpoint's files; until then it counts as torn."""
    sizes = {path.name: path.stat().st_size for path in sorted(checkpoint.iterdir()) if path.is_file()}
    text = json.dumps({**asdict(progress), "files": sizes})
    part = checkpoint / f".{PROGRESS}"
    part.write_text(text, "utf-8")
    part.replace(checkpoint / PROGRESS)


def newest(folder: Path, note: Callable[[str], None] = lambda _: None) -> Optional[Tuple[Path, Progress]]:
    """Return the newest whole checkpoint and its progress, or None; tells of each torn one that is passed over."""
    for checkpoint in _newest_first(folder):
        progress = progress_of(checkpoint)
        if progress is not None:
            return checkpoint, progress
        note(f"checkpoint {checkpoint.name} is not whole and is passed over")
    return None


def remove_older(folder: Path, keep: Optional[int], spared_step: Optional[int] = None) -> None:
    """Remove all but the newest `keep` whole checkpoints, and what is torn; None keeps all.

    The checkpoint of `spared_step` stays as one of them, or beside the newest where only one is kept.
    Trainer's own rotation would remove the last whole checkpoint before the next one is whole.
    """
    if keep is None:
        return
    whole = [checkpoint for checkpoint in _newest_first(folder) if progress_of(checkpoint) is not None]
    spared = [] if spared_step is None else [each for each in whole[keep:] if each == of_step(folder, spared_step)]
    kept = whole[: max(keep - len(spared), 1)] + spared
    for checkpoint in set(_newest_first(folder)) - set(kept):
        shutil.rmtree(checkpoint)


def progress_of(checkpoint: Path) -> Optional[Progress]:
    """Return a whole checkpoint's progress, or None for a torn one."""
    try:
        said = json.loads((checkpoint / PROGRESS).read_text("utf-8"))
        files = said.pop("files")
        whole = all((checkpoint / name).stat().st_size == size for name, size in files.items())
        return Progress(**said) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _newest_first(folder: Path) -> List[Path]:
    found = [path for path in folder.glob(f"{PREFIX}*") if path.is_dir() and path.name[len(PREFIX) :].isdigit()]
    return sorted(found, key=lambda path: int(path.name[len(PREFIX) :]), reverse=True)
