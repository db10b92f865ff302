"""Complete, incomplete and older checkpoints in a folder."""

from __future__ import annotations

from pathlib import Path

from training.job.weights import checkpoints
from training.job.weights.checkpoints import Progress


def write(folder: Path, step: int, is_complete: bool = True) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"x" * 100)
    if is_complete:
        checkpoints.write_progress(checkpoint, Progress(step, step * 32, step * 1.5))
    return checkpoint


def test_the_newest_checkpoint_has_the_highest_step(tmp_path: Path) -> None:
    for step in (9, 100, 20):
        write(tmp_path, step)
    assert checkpoints.newest(tmp_path) == (tmp_path / "checkpoint-100", Progress(100, 3200, 150.0))
    assert checkpoints.newest(tmp_path / "missing") is None


def test_incomplete_checkpoints_are_skipped_and_reported(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (write(tmp_path, 2) / "model.safetensors").write_bytes(b"x" * 99)
    (write(tmp_path, 3) / "model.safetensors").unlink()
    (write(tmp_path, 4) / "progress.json").write_text('{"step": 4')
    write(tmp_path, 5, is_complete=False)
    (write(tmp_path, 6) / "progress.json").write_text("[]")
    (tmp_path / "checkpoint-old").mkdir()
    notes: list[str] = []
    newest = checkpoints.newest(tmp_path, notes.append)
    assert newest is not None
    assert newest[1].step == 1
    assert [note.split()[1] for note in notes] == [f"checkpoint-{step}" for step in (6, 5, 4, 3, 2)]


def test_incomplete_and_older_checkpoints_are_removed(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step)
    write(tmp_path, 4, is_complete=False)
    checkpoints.remove_older(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-3"]


def test_the_best_checkpoint_is_never_removed(tmp_path: Path) -> None:
    def remaining() -> list[str]:
        return sorted(path.name.removeprefix("checkpoint-") for path in tmp_path.iterdir())

    for step in (1, 2, 3, 4, 5):
        write(tmp_path, step)
    checkpoints.remove_older(tmp_path, 3, spared_step=4)
    assert remaining() == ["3", "4", "5"]
    checkpoints.remove_older(tmp_path, 2, spared_step=3)
    assert remaining() == ["3", "5"]
    checkpoints.remove_older(tmp_path, 1, spared_step=3)
    assert remaining() == ["3", "5"]
    checkpoints.remove_older(tmp_path, 1, spared_step=None)
    assert remaining() == ["5"]
