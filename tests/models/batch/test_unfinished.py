"""The output of a prediction appears when it is whole. Until then it is private, and nothing else is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models.batch.prediction import WINDOW_ROWS, private_output, windows
from models.batch.rows import InputRow
from models.inference.predictor import Predictor
from tests.support.models.task_models import TEXTS
from training.contract.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
ROWS = WINDOW_ROWS + 20_000
"""The first window is written while the second is predicted."""


def started(folder: Path, model: Path) -> subprocess.Popen[str]:
    """Start the verb on `texts.jsonl` of a folder."""
    fields = {"model": str(model), "file": "texts.jsonl", "output": "out.jsonl", "precision": "fp32", "track": "false"}
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", "predict", *(f"--{name}={value}" for name, value in fields.items())],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def unfinished(folder: Path, process: subprocess.Popen[str]) -> Path:
    """Wait until a prediction has written answers, and return their file."""
    while not (found := [path for path in folder.glob(".out.jsonl.*") if path.stat().st_size]):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    return found[0]


def write_texts(folder: Path) -> list[str]:
    texts = [f"{at} {TEXTS[at % len(TEXTS)]}" for at in range(ROWS)]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return texts


@pytest.mark.slow
def test_a_killed_prediction_starts_again(tmp_path: Path, classifier_folder: Path, classifier: Predictor) -> None:
    texts = write_texts(tmp_path)
    process = started(tmp_path, classifier_folder)
    left = unfinished(tmp_path, process)
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    process.send_signal(signal.SIGINT)
    assert "interrupted. No output was written." in process.communicate(timeout=480)[1]
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]
    process = started(tmp_path, classifier_folder)
    left = unfinished(tmp_path, process)
    process.kill()
    process.communicate(timeout=480)
    assert {path.name for path in tmp_path.iterdir()} == {"texts.jsonl", left.name}
    last = started(tmp_path, classifier_folder)
    assert f"Predicted {ROWS:,} rows" in last.communicate(timeout=900)[1]
    result = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each["row"] for each in result] == list(range(1, ROWS + 1))
    for at in range(0, ROWS, 970):
        (single,) = classifier.answer(texts[at])
        assert result[at] == {"row": at + 1, **single, "score": pytest.approx(single["score"], abs=1e-5)}


@pytest.mark.slow
def test_a_file_that_changes_is_refused(tmp_path: Path, classifier_folder: Path) -> None:
    write_texts(tmp_path)
    process = started(tmp_path, classifier_folder)
    unfinished(tmp_path, process)
    with (tmp_path / "texts.jsonl").open("r+") as file:
        file.write(json.dumps({"text": "9 "})[:12])  # the first row, whose answer exists already
    errors = process.communicate(timeout=480)[1]
    assert process.returncode == 2
    assert "error: --file texts.jsonl changed while its rows were predicted: run the same command again." in errors
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_an_output_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=r"out\.jsonl was created meanwhile"), private_output(output):
        output.write_text("theirs")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]


def test_a_window_has_limited_rows_and_characters() -> None:
    rows = [InputRow(at, "", None, "x") for at in range(WINDOW_ROWS + 2)]
    assert [len(window) for window in windows(iter(rows))] == [WINDOW_ROWS, 2]
    context = "y" * 2**24
    long = [InputRow(at, "", None, {"question": "x", "context": context}) for at in range(5)]
    assert [len(window) for window in windows(iter(long))] == [2, 2, 1]
