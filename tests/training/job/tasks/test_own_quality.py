"""A user's own quality function: its metrics, the rows that it gets, and the sentences for what it must not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.job.job_process import TORCHRUN
from training.job.processes.reporting import ArgumentError
from training.job.tasks.own_quality import OwnQuality

ROWS = [{"reference": "calm", "prediction": "calm"}, {"reference": "calm", "prediction": "wild é"}]
COSTLY = """
def score(rows):
    missed = sum(row["reference"] != row["prediction"] for row in rows)
    return {"error": missed / len(rows), "own_rows": len(rows)}
"""


def own(folder: Path, body: str, **needed: Any) -> OwnQuality:
    (folder / "own.py").write_text(body)
    return OwnQuality(folder, "own.py:score", **needed)


@pytest.mark.parametrize(
    ("result", "metrics"),
    [
        ("0.25", {"score": 0.25}),
        ("{'error': np.float32(0.5), 'share_of_calm': 1}", {"error": 0.5, "share_of_calm": 1.0}),
        ("np.array(3)", {"score": 3.0}),
    ],
)
def test_numbers_become_metrics(tmp_path: Path, result: str, metrics: dict[str, float]) -> None:
    function = own(tmp_path, f"import numpy as np\ndef score(rows):\n    return {result}\n")
    assert function(ROWS, {"accuracy": 0.5}) == metrics


RULE = "it must return a finite number, or a dictionary of finite numbers with 'score' or 'error'"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import no_such", "failed in own.py line 1: ModuleNotFoundError: No module named 'no_such'"),
        ("x = 1\ndef score(", "failed in own.py line 2: SyntaxError: '(' was never closed"),
        ("def score(rows):\n    return rows[0]['label']", "failed in own.py line 2: KeyError: 'label'"),
        ("\ndef score(rows):\n    return 'good'", f"(own.py line 2) returned 'good' for 'score'; {RULE}"),
        ("def score(rows): return float('nan')", f"(own.py line 1) returned nan for 'score'; {RULE}"),
        ("def score(rows): return None", f"(own.py line 1) returned None for 'score'; {RULE}"),
        ("def score(rows): return True", f"(own.py line 1) returned True for 'score'; {RULE}"),
        ("def score(rows): return {'auc': 0.5}", f"(own.py line 1) returned 'auc'; {RULE}"),
        ("def score(rows): return {}", f"(own.py line 1) returned nothing; {RULE}"),
        ("import numpy\ndef score(rows): return numpy.zeros(2)", "returned array([0., 0.]) for 'score'"),
        ("def score(rows): return {'score': 1, 'f1': 2}", "returned 'f1', the name of a metric that jobs report"),
        ("def score(rows): return {'score': 1, 'loss': 2}", "returned 'loss', the name of a metric that jobs report"),
        ("def score(rows): return {'score': 1, 'mine': 2}", "returned 'mine', the name of a metric that jobs report"),
    ],
)
def test_what_it_must_not_do(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        own(tmp_path, body)(ROWS, {"mine": 0.5})
    assert message in str(refused.value)
    assert str(refused.value).startswith("quality own.py:score ")


def test_it_must_return_the_metric_of_the_target(tmp_path: Path) -> None:
    function = own(tmp_path, "def score(rows): return 1", needed=["eval_error", None])
    with pytest.raises(ArgumentError, match="returned 'score', and the experiment needs 'error'"):
        function(ROWS, {})


def quality_of(job: Any, body: str) -> dict[str, Any]:
    folder = job.folder / "quality"
    folder.mkdir()
    (folder / "own.py").write_text(body)
    job.environment["SM_CHANNEL_QUALITY"] = str(folder)
    return {"quality_function": "own.py:score", "quality_digest": "0"}


def test_a_job_reports_it_and_trains_the_same(job: Any, new_job: Any) -> None:
    """The trial before the training leaves no trace: no metric, no random number."""
    arguments = {"epochs": 1, "eval_strategy": "steps", "eval_steps": 3}
    plain = new_job("plain").run(**arguments)
    ended = job.run(**arguments, **quality_of(job, COSTLY))
    metrics = ended.result["metrics"]
    assert metrics["eval_error"] == pytest.approx(1 - metrics["eval_accuracy"])
    assert metrics["eval_own_rows"] == 13
    evaluated = [event["step"] for event in ended.events("metric") if "eval_error" in event["values"]]
    assert evaluated == [3, 6, 7]
    assert (ended.weights, ended.losses) == (plain.weights, plain.losses)


def test_an_error_shows_before_the_first_step(job: Any) -> None:
    ended = job.run(max_steps=5, **quality_of(job, "def score(rows):\n    return 1 / (len(rows) - 13)\n"))
    [failure] = ended.events("failure")
    assert failure["message"] == "quality own.py:score failed in own.py line 2: ZeroDivisionError: division by zero"
    assert not ended.events("metric")


def test_a_target_of_lower_errors(job: Any) -> None:
    target = {"target_metric": "eval_error", "target_value": 1, "target_stop": True}
    ended = job.run(max_steps=9, eval_strategy="steps", eval_steps=2, **target, **quality_of(job, COSTLY))
    assert (ended.result["steps"], ended.result["metrics"]["target/reached"]) == (2, 1)


@pytest.mark.slow
def test_the_first_process_decides(job: Any) -> None:
    """Each process gets another number, and both stop at the same step, or one would wait for the other for ever."""
    function = "import os\ndef score(rows):\n    return {'error': int(os.environ['RANK'])}\n"
    target = {"target_metric": "eval_error", "target_value": 0, "target_stop": True}
    ended = job.run(TORCHRUN, max_steps=6, eval_strategy="steps", eval_steps=2, **target, **quality_of(job, function))
    assert (ended.result["steps"], ended.result["metrics"]["eval_error"]) == (2, 0)
