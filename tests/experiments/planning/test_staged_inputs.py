"""Staged inputs of a command stay locked until it ends, even before any run refers to them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.inputs import stage_inputs
from experiments.planning.load import arms, load
from training.state.deletion import delete, discard
from training.state.shared_folders import lock_for_deletion


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arm:
    """An arm on 40 short rows, with state in `home`."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    overrides = {"data.train": str(tmp_path / "rows.jsonl"), "data.validation": str(tmp_path / "rows.jsonl")}
    return arms(load("demo", overrides))[0]


def test_staged_data_is_locked_against_deletion(arm: Arm, tmp_path: Path) -> None:
    [staged] = stage_inputs([arm], lambda _: None)
    with lock_for_deletion(tmp_path / "home" / "staged" / staged.key) as is_exclusive:
        assert not is_exclusive


def test_data_deleted_while_a_command_waits_is_staged_again(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [staged] = stage_inputs([arm], lambda _: None)
    home = tmp_path / "another"
    folder = home / "staged" / staged.key
    folder.parent.mkdir(parents=True)
    (tmp_path / "home" / "staged" / staged.key).rename(folder)
    monkeypatch.setenv("TRAINFARE_HOME", str(home))
    again, output = [], []
    waiting = threading.Thread(target=lambda: again.extend(stage_inputs([arm], output.append)))
    with lock_for_deletion(folder) as is_exclusive:
        assert is_exclusive
        waiting.start()
        waiting.join(timeout=1.0)  # long enough to find the data and come to its lock
        assert waiting.is_alive()
        delete(discard(folder, home))
    waiting.join()
    assert again[0].key == staged.key
    assert (folder / "train" / "data.parquet").is_file()
    assert [line for line in output if line.startswith("Staged 40 + 40 rows")]
