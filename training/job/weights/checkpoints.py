"""Checkpoints: write, find and remove them so that only complete ones are ever used, and what each records.

A checkpoint is written in a separate folder, which is renamed once all of its files exist. `progress.json` is written
last and lists the files with their sizes. The list stays in the checkpoint: in a store that copies file by file, it
shows whether the copy is complete.
"""

import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training.job.processes.reporting import BadData


def direction_of(metric: str) -> str:
    """Return `min` for a metric whose lower values are better, else `max`."""
    return "min" if metric.endswith(("loss", "perplexity", "error", "mse", "mae")) else "max"


@dataclass
class Target:
    """A metric's target value, and when the training first reached it."""

    metric: str
    """Name in Trainer's log, such as `eval_accuracy`."""
    value: float
    direction: str | None = None
    """min | max; None means the usual direction of the metric."""
    seconds: float | None = None
    """Seconds from the start of the job's process until the target was reached; None before."""
    samples: int | None = None
    """Training samples seen until the target was reached; None before."""
    stops: bool = field(default=False, compare=False)
    """True if the training ends when it reaches the target."""

    @property
    def ends_training(self) -> bool:
        return self.stops and self.seconds is not None

    def observe(self, values: Mapping[str, float], seconds: float, samples: int) -> None:
        """Record logged values. Only the first value that reaches the target counts."""
        if self.seconds is not None or self.metric not in values:
            return
        value, direction = values[self.metric], self.direction or direction_of(self.metric)
        if value <= self.value if direction == "min" else value >= self.value:
            self.seconds, self.samples = seconds, samples

    def metrics(self) -> dict[str, float]:
        """Return `target/reached`, and if it is 1, the seconds and samples until then."""
        if self.seconds is None or self.samples is None:
            return {"target/reached": 0}
        return {"target/reached": 1, "target/seconds": self.seconds, "target/samples": self.samples}


@dataclass
class BestEvaluation:
    """The step with the best value of a metric; of several equal values, the first."""

    metric: str
    """Name in Trainer's log, such as `eval_f1_macro`."""
    step: int | None = None
    """Optimizer steps before that evaluation; None before the first evaluation."""
    value: float | None = None
    """Best value of the metric so far."""

    def observe(self, values: Mapping[str, float], step: int) -> None:
        """Record an evaluation."""
        value = values[self.metric]
        if math.isnan(value):
            return
        sign = 1 if direction_of(self.metric) == "max" else -1
        if self.value is None or sign * value > sign * self.value:
            self.step, self.value = step, value

    def metrics(self) -> dict[str, float]:
        """Return `best/step`; empty if the metric was NaN in every evaluation."""
        return {} if self.step is None else {"best/step": self.step}


PREFIX = "checkpoint-"
PROGRESS = "progress.json"
UNFINISHED = ".unfinished"
"""Subfolder of the checkpoint folder in which the next checkpoint is written."""


@dataclass(frozen=True)
class Progress:
    """State of a training at a checkpoint."""

    step: int
    samples: int
    seconds: float
    """Run time of the job's processes in seconds, summed over all starts."""
    identity: dict[str, Any] = field(default_factory=dict)
    """Values that distinguish this training from any other, by name."""
    owes_evaluation: bool = False
    """True if this step's evaluation was skipped because the job had to stop."""
    best: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    tokens: int = 0
    """Tokens of the samples, without padding."""


NO_PROGRESS = Progress(step=0, samples=0, seconds=0.0)


@dataclass(frozen=True)
class CheckpointKeeper:
    """Records each new checkpoint and removes old ones."""

    folder: Path | None
    """Folder for the checkpoints; None if none are kept."""
    limit: int
    """Number of checkpoints to keep."""
    identity: dict[str, Any]
    """Values that identify this training (see `settings/training_identity.py`)."""
    earlier_progress: Progress
    best: BestEvaluation | None
    """Best evaluation so far; None if none is tracked."""
    target: Target | None
    """Target of the training; None if it has none."""

    def keep(self, step: int, samples: int, tokens: int, seconds: float, owes_evaluation: bool) -> None:
        """Move the checkpoint that was just written into the checkpoint folder, and remove older ones."""
        assert self.folder is not None, "Trainer writes checkpoints only when there is a folder for them"
        best, target = (asdict(each) if each else None for each in (self.best, self.target))
        unfinished, checkpoint = self.folder / UNFINISHED, checkpoint_path(self.folder, step)
        written = checkpoint_path(unfinished, step)
        write_progress(written, Progress(step, samples, seconds, self.identity, owes_evaluation, best, target, tokens))
        if checkpoint.exists():
            # It must be incomplete: the training resumed from the newest complete checkpoint, which is older.
            shutil.rmtree(checkpoint)
        written.replace(checkpoint)
        unfinished.rmdir()
        remove_older(self.folder, self.limit, spared_step=self.best.step if self.best else None)

    def best_checkpoint(self) -> Path:
        """Return the path of the best checkpoint. Raises `BadData` when it no longer exists."""
        assert self.best, "called only when the best evaluation is tracked"
        assert self.folder, "the best evaluation is tracked only when checkpoints are written"
        checkpoint = checkpoint_path(self.folder, self.best.step or 0)
        if progress_of(checkpoint) is None:
            raise BadData(
                f"{checkpoint} with the best weights (best_metric {self.best.metric!r}) is missing or incomplete"
            )
        return checkpoint


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX}{step}"


def write_progress(checkpoint: Path, progress: Progress) -> None:
    """Write `progress.json` with the list of files. Without it, the checkpoint counts as incomplete."""
    sizes = {path.name: path.stat().st_size for path in sorted(checkpoint.iterdir()) if path.is_file()}
    text = json.dumps({**asdict(progress), "files": sizes})
    part = checkpoint / f".{PROGRESS}"
    part.write_text(text, "utf-8")
    part.replace(checkpoint / PROGRESS)


def newest(folder: Path, note: Callable[[str], None] = lambda _: None) -> tuple[Path, Progress] | None:
    """Return the newest complete checkpoint and its progress, or None.

    Calls `note` with a message for each incomplete checkpoint that is skipped.
    """
    for checkpoint in _newest_first(folder):
        progress = progress_of(checkpoint)
        if progress is not None:
            return checkpoint, progress
        note(f"checkpoint {checkpoint.name} is incomplete and is skipped")
    return None


def remove_older(folder: Path, keep: int, spared_step: int | None = None) -> None:
    """Remove incomplete checkpoints and all complete ones except the newest `keep`.

    The checkpoint of `spared_step` is kept and counts as one of `keep`. If `keep` is 1, it is kept in addition to the
    newest. Trainer's own rotation is not safe: it removes the last complete checkpoint before the next one is complete.
    """
    complete = [checkpoint for checkpoint in _newest_first(folder) if progress_of(checkpoint) is not None]
    spared_path = None if spared_step is None else checkpoint_path(folder, spared_step)
    spared = [checkpoint for checkpoint in complete[keep:] if checkpoint == spared_path]
    kept = complete[: max(keep - len(spared), 1)] + spared
    for checkpoint in set(_newest_first(folder)) - set(kept):
        shutil.rmtree(checkpoint)


def progress_of(checkpoint: Path) -> Progress | None:
    """Return the progress of a complete checkpoint, or None if it is incomplete."""
    try:
        fields = json.loads((checkpoint / PROGRESS).read_text("utf-8"))
        files = fields.pop("files")
        is_complete = all((checkpoint / name).stat().st_size == size for name, size in files.items())
        return Progress(**fields) if is_complete else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _newest_first(folder: Path) -> list[Path]:
    folders = [path for path in folder.glob(f"{PREFIX}*") if path.is_dir() and path.name[len(PREFIX) :].isdigit()]
    return sorted(folders, key=lambda path: int(path.name[len(PREFIX) :]), reverse=True)
