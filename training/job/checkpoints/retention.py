"""Keep the newest checkpoints and the best one, each with the progress that the next start needs."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Optional

from checkpoints import checkpoint_files
from checkpoints.best_evaluation import BestEvaluation
from checkpoints.checkpoint_files import Progress
from checkpoints.target import Target
from reporting.errors import BadData


@dataclass(frozen=True)
class CheckpointKeeper:
    """Records each new checkpoint and removes old ones."""

    folder: Optional[Path]
    """Folder for the checkpoints; None if none are kept."""
    limit: Optional[int]
    """Number of checkpoints to keep; None keeps all."""
    identity: Dict[str, Any]
    """Values that identify this training (see `settings/training_identity.py`)."""
    earlier_progress: Progress
    """Progress of the job's earlier starts."""
    best: Optional[BestEvaluation]
    """Best evaluation so far; None if none is tracked."""
    target: Optional[Target]
    """Target of the training; None if it has none."""

    def keep(self, step: int, samples: int, seconds: float, owes_evaluation: bool) -> None:
        """Add the checkpoint that was just written to the folder, and remove older ones."""
        assert self.folder is not None, "Trainer writes checkpoints only when there is a folder for them"
        best, target = (asdict(each) if each else None for each in (self.best, self.target))
        checkpoint_files.finish(
            self.folder, Progress(step, samples, seconds, self.identity, owes_evaluation, best=best, target=target)
        )
        checkpoint_files.remove_older(self.folder, self.limit, spared_step=self.best.step if self.best else None)

    def best_checkpoint(self) -> Path:
        """Return the path of the best checkpoint. Raises `BadData` when it no longer exists."""
        assert self.best, "called only when the best evaluation is tracked"
        assert self.folder, "the best evaluation is tracked only when checkpoints are written"
        checkpoint = checkpoint_files.checkpoint_path(self.folder, self.best.step or 0)
        if checkpoint_files.progress_of(checkpoint) is None:
            raise BadData(
                f"{checkpoint} with the best weights (best_metric {self.best.metric!r}) is missing or incomplete"
            )
        return checkpoint
