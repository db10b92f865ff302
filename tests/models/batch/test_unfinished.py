"""A killed prediction resumes with the same command: no row is lost, repeated or mixed with others."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models.batch.unfinished import Unfinished
from models.inference.predictor import Predictor
from tests.support.models.task_models import TEXTS
from training.contract.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
ROWS = 60_000


def started(folder: Path, model: Path) -> subprocess.Popen[str]:
    """Start the verb on `texts.jsonl` of a folder."""
    fields = {"model": str(model), "file": "texts.jsonl", "output": "out.jsonl", "precision": "fp32", "track": "false"}
    options = [word for name, value in fields.items() for word in (f"--{name}", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", "predict", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_texts(folder: Path) -> list[str]:
    texts = [f"{at} {TEXTS[at % len(TEXTS)]}" for at in range(ROWS)]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return texts


def interrupted(folder: Path, model: Path, number: signal.Signals) -> tuple[int, str]:
    """Send the verb a signal once it has answers. Return its exit code and standard error."""
    process = started(folder, model)
    window, done = (folder / "out.jsonl.unfinished" / name for name in ("window.jsonl", "answers.jsonl"))
    before = kept(folder)
    while kept(folder) <= before:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(number)
    errors = process.communicate(timeout=480)[1]
    assert window.exists()
    assert done.exists()
    assert not (folder / "out.jsonl").exists()
    return process.returncode, errors


def kept(folder: Path) -> int:
    """Return the number of complete answers on disk."""
    unfinished = folder / "out.jsonl.unfinished"
    if not (unfinished / "window.jsonl").exists():
        return 0
    done = (unfinished / "answers.jsonl").read_bytes().count(b"\n")
    lines = (unfinished / "window.jsonl").read_bytes().split(b"\n")[:-1]
    return done + sum(json.loads(line)["at"] >= done for line in lines)


@pytest.mark.slow
def test_a_killed_prediction_resumes(tmp_path: Path, classifier_folder: Path, classifier: Predictor) -> None:
    texts = write_texts(tmp_path)
    assert interrupted(tmp_path, classifier_folder, signal.SIGKILL)[0] == -signal.SIGKILL
    first = kept(tmp_path)
    code, errors = interrupted(tmp_path, classifier_folder, signal.SIGINT)
    assert code == 130
    assert f"{first:,} of {ROWS:,} rows were predicted before" in errors
    assert "The same command continues" in errors
    second = kept(tmp_path)
    assert first < second < ROWS
    last = started(tmp_path, classifier_folder)
    errors = last.communicate(timeout=900)[1]
    assert last.returncode == 0
    result = re.search(r"Predicted ([\d,]+) rows", errors)
    assert result is not None
    assert int(result[1].replace(",", "")) == ROWS - second
    assert_same(tmp_path / "out.jsonl", classifier, texts)
    assert not (tmp_path / "out.jsonl.unfinished").exists()


@pytest.mark.slow
def test_a_file_that_changes_is_refused(tmp_path: Path, classifier_folder: Path) -> None:
    write_texts(tmp_path)
    process = started(tmp_path, classifier_folder)
    while not kept(tmp_path):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    with (tmp_path / "texts.jsonl").open("r+") as file:
        file.write(json.dumps({"text": "9 "})[:12])  # the first row, whose answer exists already
    errors = process.communicate(timeout=480)[1]
    assert process.returncode == 2
    assert "error: --file texts.jsonl changed while its rows were predicted: delete out.jsonl.unfinished" in errors
    assert not (tmp_path / "out.jsonl").exists()


def assert_same(output: Path, classifier: Predictor, texts: list[str]) -> None:
    result = [json.loads(line) for line in output.read_text().splitlines()]
    assert [each["row"] for each in result] == list(range(1, ROWS + 1))
    for at in range(0, ROWS, 970):
        (single,) = classifier.answer(texts[at])
        assert result[at]["label"] == single["label"]
        assert result[at]["score"] == pytest.approx(single["score"], abs=1e-5)


def test_answers_of_different_predictions_are_not_mixed(tmp_path: Path) -> None:
    output, identity = tmp_path / "out.jsonl", {"model": "a", "file_digest": "1"}
    with Unfinished(output, identity), pytest.raises(InputError, match="is being written by another process"):
        Unfinished(output, identity)
    with pytest.raises(InputError, match=r"has answers for a different file_digest \(1, now 2\)"):
        Unfinished(output, {"model": "a", "file_digest": "2"})
    with Unfinished(output, identity) as again:
        assert again.done == 0


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out.jsonl.unfinished").symlink_to("theirs")
    with pytest.raises(InputError, match=r"out\.jsonl\.unfinished cannot keep answers: it is not a folder\. Delete it"):
        Unfinished(tmp_path / "out.jsonl", {})
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder, notes = tmp_path / "out.jsonl.unfinished", tmp_path / "notes.txt"
    folder.mkdir()
    notes.write_text("mine\n")
    (folder / "answers.jsonl").symlink_to(notes)
    os.chown(folder, 4321, -1)
    with pytest.raises(InputError, match=r"cannot keep answers: it belongs to another user \(4321\)\. Delete it"):
        Unfinished(tmp_path / "out.jsonl", {})
    assert notes.read_text() == "mine\n"


def test_incomplete_lines_are_written_again(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with Unfinished(output, {}) as first:
        first.append([{"row": 1}, {"row": 2}])
        first.keep([(3, {"label": "x"}), (2, {"label": "y"})])
    with (first.folder / "answers.jsonl").open("ab") as file:
        file.write(b'{"row": 3, "lab')
    with (first.folder / "window.jsonl").open("ab") as file:
        file.write(b'{"at": 4, "ans')
    with Unfinished(output, {}) as again:
        assert (again.done, again.window_answers) == (2, {3: {"label": "x"}, 2: {"label": "y"}})
        again.append([{"row": 3}, {"row": 4}])
        assert (first.folder / "window.jsonl").read_bytes() == b""
        again.finish()
    assert output.read_text().splitlines() == [json.dumps({"row": at}) for at in (1, 2, 3, 4)]
    assert not first.folder.exists()


def test_appended_rows_are_not_predicted_again(tmp_path: Path) -> None:
    """The process was killed after it appended the window's lines and before it emptied the window file."""
    with Unfinished(tmp_path / "out.jsonl", {}) as first:
        first.keep([(0, "a"), (1, "b"), (2, "c")])
    (first.folder / "answers.jsonl").write_text('{"row": 1}\n{"row": 2}\n')
    with Unfinished(tmp_path / "out.jsonl", {}) as again:
        assert (again.done, again.window_answers) == (2, {2: "c"})


@pytest.mark.parametrize("name", ["identity.json", "window.jsonl"])
@pytest.mark.parametrize("content", [b"[1, 2]\n", bytes(range(200, 256)) + b"\n"])
def test_damaged_answers_are_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    output, identity = tmp_path / "out.jsonl", {"model": "m"}
    with Unfinished(output, identity) as unfinished:
        unfinished.keep([(0, "a")])
    (unfinished.folder / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged: delete .*out\.jsonl\.unfinished, or choose"):
        Unfinished(output, identity)
