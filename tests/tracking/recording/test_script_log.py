"""Script logs, worked out by hand: the numbers of each line and the resulting events."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.recording.log_lines import seconds, table_part, trainer_values
from tracking.recording.metric_points import metric_points, phase_totals
from tracking.recording.script_log import ScriptLogReader
from training.contract.events import Event


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{'loss': 0.6931, 'grad_norm': 5e-05, 'epoch': 0.5}", {"loss": 0.6931, "grad_norm": 5e-5, "epoch": 0.5}),
        ("{'loss': '0.69', 'grad_norm': '1.2', 'epoch': '1'}", {"loss": 0.69, "grad_norm": 1.2, "epoch": 1.0}),
        ("{'eval_f1': np.float64(0.83), 'a': tensor(2), 'epoch': 2}", {"eval_f1": 0.83, "a": 2.0, "epoch": 2.0}),
        ("{'loss': inf, 'total_flos': 1e12, 'name': 'x', 'epoch': 1.0}", {"loss": math.inf, "epoch": 1.0}),
        ("\x1b[A{'rewards/chosen': -0.5,'epoch': 1}", {"rewards/chosen": -0.5, "epoch": 1.0}),
        ("{'loss': 0.69}", {}),
        ("{'../x': 1, 'epoch': 1}", {"epoch": 1.0}),
        ("{'loss': 0.69, 'epoch'", {}),
        ("", {}),
    ],
)
def test_dicts_of_old_and_new_trainers_are_read(text: str, values: dict[str, float]) -> None:
    assert trainer_values(text) == values


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("***** train metrics *****", "train"),
        ("  train_runtime            = 0:00:23.77", ("train_runtime", 23.77)),
        ("  train_samples            =      15000", ("train_samples", 15000.0)),
        ("  eval_exact_match         =    81.2345", ("eval_exact_match", 81.2345)),
        ("  perplexity               =        inf", ("perplexity", math.inf)),
        ("  total_flos               =     1737GF", None),
        ("  weights = 3 of them", None),
        ("train_samples = 15000", None),
    ],
)
def test_tables_of_trainer_are_read(text: str, part: Any) -> None:
    row = table_part(text)
    assert (row and (row[1] if row[0] == "header" else row[1:])) == part


def test_durations_are_converted_to_seconds() -> None:
    assert seconds("1 day, 2:03:04.50") == 86_400 + 2 * 3_600 + 3 * 60 + 4.5
    assert seconds("12:00") is None


TRAINER_LOG = [
    "\r  0%|          | 0/4 [00:00<?, ?it/s]Some warning",
    "\r 50%|#####     | 2/4 [00:01]\r      \r{'loss': '2.0', 'learning_rate': '5e-05', 'epoch': '0.5'}",
    "\r 50%|#####     | 2/4 [00:01]\r      \r{'loss': '1.0', 'learning_rate': '0', 'epoch': '1'}",
    "\r100%|##########| 1/1 [00:01]\x1b[A\r  \r{'eval_loss': '1.5', 'eval_runtime': '2', 'epoch': '1'}",
    "{'train_runtime': '10', 'train_samples_per_second': '6.4', 'train_loss': '1.5', 'epoch': '1'}",
    "***** train metrics *****",
    "  epoch                    =        1.0",
    "  train_loss               =        1.5",
    "  train_runtime            = 0:00:10.00",
    "  train_samples            =         64",
    "***** eval metrics *****",
    "  epoch                    =        1.0",
    "  eval_loss                =       1.25",
    "  eval_runtime             = 0:00:03.00",
]


def read(lines: list[str], regexes: dict[str, str], pages: int = 1) -> list[Event]:
    reader, events = ScriptLogReader(regexes), []
    times = [100.0 + at for at in range(len(lines))]
    size = -(-len(lines) // pages)
    for at in range(0, len(lines), size):
        events += reader.read(lines[at : at + size], times[at : at + size])
    return [*events, *reader.result(200.0)]


def series(events: list[Event]) -> dict[str, list[tuple[int, float, float]]]:
    points: dict[str, list[tuple[int, float, float]]] = {}
    for event in (event for event in events if event.kind == "metric"):
        for point in metric_points(event):
            points.setdefault(point.key, []).append((point.step, point.timestamp / 1000, point.value))
    return points


def test_the_log_of_a_trainer_script() -> None:
    events = read(TRAINER_LOG, {})
    metrics = series(events)
    assert metrics["loss"] == [(1, 101.0, 2.0), (2, 102.0, 1.0)]
    assert metrics["learning_rate"] == [(1, 101.0, 5e-5), (2, 102.0, 0.0)]
    # The table's evaluation is another one than the dict's; its training is the summary again.
    assert metrics["eval_loss"] == [(3, 103.0, 1.5), (6, 112.0, 1.25)]
    assert metrics["train_loss"] == [(4, 104.0, 1.5)]
    assert metrics["train_samples"] == [(5, 109.0, 64.0)]
    # 6.4 samples/s in 10 s are 64; the first loss came half way. Nothing is known of them before the summary.
    assert metrics["samples"] == [(1, 101.0, 32.0), (2, 102.0, 64.0), (3, 103.0, 64.0), (4, 104.0, 64.0)]
    # The 2 s of evaluation are within the 10 s of training; the 3 s are not.
    assert phase_totals(events) == {"time/eval_seconds": 5.0, "time/train_seconds": 8.0}
    assert events[-1].kind == "result"
    assert events[-1].fields["metrics"]["eval_loss"] == 1.25
    assert "loss" not in events[-1].fields["metrics"]


def test_a_second_training_adds_its_samples() -> None:
    summary = "{'train_runtime': 10.0, 'train_samples_per_second': 10.0, 'epoch': 2.0}"
    lines = ["{'loss': 2.0, 'epoch': 1.0}", summary, "{'eval_loss': 1.0, 'epoch': 2.0}"]
    metrics = series(read([*lines, *lines], {}))
    assert [value for _, _, value in metrics["samples"]] == [50.0, 100.0, 100.0, 150.0, 200.0, 200.0]


def test_the_log_of_a_plain_loop() -> None:
    lines = ["epoch 1", "step 10 samples 80 loss 0.5000", "step 20 samples 160 loss nan", "accuracy: 1,000.5", "loss x"]
    regexes = {
        "epoch": r"epoch (\d+)",
        "step": r"step (\d+)",
        "samples": r"samples (\d+)",
        "loss": r"loss (\S+)",
        "eval_accuracy": r"accuracy: (.*)",
    }
    events = read(lines, regexes)
    metrics = series(events)
    assert metrics["loss"][0] == (10, 101.0, 0.5)
    assert math.isnan(metrics["loss"][1][2])
    assert metrics["samples"] == [(10, 101.0, 80.0), (20, 102.0, 160.0), (20, 103.0, 160.0)]
    assert metrics["eval_accuracy"] == [(20, 103.0, 1000.5)]
    assert {value for _, _, value in metrics["epoch"]} == {1.0}
    assert events[-1].fields == {"metrics": {"eval_accuracy": 1000.5}, "tables": {}, "steps": 20}


def test_the_expressions_of_a_published_workload_still_match() -> None:
    """The expressions of sst2-gpt2, on the log of the Trainer for which they were written."""
    keys = ("train_runtime", "train_samples_per_second", "train_loss")
    regexes = {f"summary_{key}": f"'{key}': ([0-9.]*)" for key in keys} | {"train_loss": "'loss': ([0-9.]*)"}
    lines = [
        "{'loss': 3.21, 'learning_rate': 4.9e-05, 'epoch': 1.0}",
        "{'train_runtime': 8.5, 'train_samples_per_second': 12.0, 'train_loss': 3.2, 'epoch': 1.0}",
    ]
    metrics = {key: points[-1][2] for key, points in series(read(lines, regexes)).items()}
    assert metrics["train_loss"] == 3.2
    assert (metrics["loss"], metrics["summary_train_loss"], metrics["summary_train_runtime"]) == (3.21, 3.2, 8.5)
    assert metrics["samples"] == 102.0


def test_the_page_size_does_not_change_the_events() -> None:
    assert all(read(TRAINER_LOG, {}, pages) == read(TRAINER_LOG, {}) for pages in range(1, len(TRAINER_LOG)))


@given(st.lists(st.text(alphabet="{}'\":,=* \r.eE+-0159alosepchvtrinmu_()/", max_size=60), max_size=8))
def test_any_line_can_be_read(lines: list[str]) -> None:
    regexes = {"step": r"s(\S+)", "samples": r"(\d+)", "x": r"l(.*)", "epoch": r"e([0-9e.+-]*)"}
    events = read([*lines, "x"], regexes)
    assert events == read([*lines, "x"], regexes) or any("nan" in line for line in lines)
    assert all(0 <= point.step < 2**53 for event in events if event.kind == "metric" for point in metric_points(event))
