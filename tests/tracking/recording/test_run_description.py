"""State of the checkout that a run records."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tracking.recording.run_artifacts import git_state


def test_only_tracked_files_are_local_changes(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text("a = 1\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / ".trainfare").mkdir()
    for name in ("mlflow.db", "mlflow.db-wal", ".mlflow.db.lock", "runs.db", ".runs.db.lock", ".trainfare/state"):
        (tmp_path / name).touch()
    state = git_state(tmp_path)
    assert (len(state["commit"]), state["dirty"]) == (40, False)
    (tmp_path / "source.py").write_text("a = 2\n")
    assert git_state(tmp_path) == {**state, "dirty": True}
