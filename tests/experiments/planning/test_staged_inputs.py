"""Test that a command's staged inputs stay locked until it ends, also before any run refers to them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.load import arms, load
from experiments.planning.staged_inputs import stage_inputs
from training.state.deletion import delete, discard
from training.state.shared_folders import lock_for_deletion


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arm:
    """An arm on 40 short rows, with state in `home`."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    given = {"data.train": str(tmp_path / "rows.jsonl"), "data.validation": str(tmp_path / "rows.jsonl")}
    return arms(load("demo", given))[0]


def test_staged_data_is_in_use(arm: Arm, tmp_path: Path) -> None:
    [found] = stage_inputs([arm], lambda _: None)
    with lock_for_deletion(tmp_path / "home" / "staged" / found.key) as is_alone:
        assert not is_alone


def test_data_that_is_deleted_just_now_is_staged_again(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [found] = stage_inputs([arm], lambda _: None)
    home = tmp_path / "another"
    folder = home / "staged" / found.key
    folder.parent.mkdir(parents=True)
    (tmp_path / "home" / "staged" / found.key).rename(folder)
    monkeypatch.setenv("TRAINFARE_HOME", str(home))
    again, output = [], []
    waiting = threading.Thread(target=lambda: again.extend(stage_inputs([arm], output.append)))
    with lock_for_deletion(folder) as is_alone:
        assert is_alone
        waiting.start()
        waiting.join(timeout=1.0)  # long enough to find the data and come to its lock
        assert waiting.is_alive()
        delete(discard(folder, home))
    waiting.join()
    assert again[0].key == found.key
    assert (folder / "train" / "data.parquet").is_file()
    assert [line for line in output if line.startswith("Staged 40 + 40 rows")]
