"""What a training keeps: its newest checkpoints and its best one, each with all that the next start must know."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Optional

from checkpoints import checkpoint_files
from checkpoints.best_evaluation import Best
from checkpoints.checkpoint_files import Progress
from checkpoints.target import Target
from reporting.errors import BadData


@dataclass(frozen=True)
class Keeper:
    """Told when a checkpoint is written."""

    folder: Optional[Path]
    """Takes the checkpoints; None where none is kept."""
    limit: Optional[int]
    """Checkpoints kept; None keeps all."""
    identity: Dict[str, Any]
    """What makes this training (see `identity`)."""
    before: Progress
    """How far earlier starts had come."""
    best: Optional[Best]
    """The best evaluation so far; None looks for none."""
    target: Optional[Target]
    """What the training is meant to reach; None measures none."""

    def keep(self, step: int, samples: int, seconds: float, owes_evaluation: bool) -> None:
        """Make a checkpoint whose files are all written the newest one, and let go of older ones."""
        assert self.folder is not None, "Trainer writes checkpoints only where there is a folder for them"
        best, target = (asdict(each) if each else None for each in (self.best, self.target))
        checkpoint_files.finish(
            self.folder, Progress(step, samples, seconds, self.identity, owes_evaluation, best=best, target=target)
        )
        checkpoint_files.remove_older(self.folder, self.limit, spared_step=self.best.step if self.best else None)

    def best_checkpoint(self) -> Path:
        """Return where the best weights lie. Raises `BadData` when they are gone."""
        assert self.best, "asked only where one is looked for"
        assert self.folder, "a best one is looked for only where checkpoints are written"
        checkpoint = checkpoint_files.of_step(self.folder, self.best.step or 0)
        if checkpoint_files.progress_of(checkpoint) is None:
            raise BadData(f"{checkpoint} is gone or not whole, and it held the best weights ({self.best.metric})")
        return checkpoint
