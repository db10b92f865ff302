"""Script logs, worked out by hand: the numbers of each line, the resulting events and the steady rate."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.recording.metrics import Deduplicator, metric_points, phase_totals
from tracking.recording.script_log import ScriptLogReader, SteadyRate, metric_name
from tracking.recording.trainer_log import trainer_values
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
        ("{'eval_recall@10': 0.5, 'epoch': 1}", {"eval_recall@10": 0.5, "epoch": 1.0}),
        ("{'loss': 0.69, 'epoch'", {}),
    ],
)
def test_dicts_of_old_and_new_trainers_are_read(text: str, values: dict[str, float]) -> None:
    assert trainer_values(text) == values


TRAINER_LOG = [
    "\r  0%|          | 0/10 [00:00<?, ?it/s]Some warning",
    "\r 40%|####      | 4/10 [00:01<00:01, 4.00it/s]\r     \r{'loss': '2.0', 'learning_rate': '5e-05', 'epoch': '0.5'}",
    "\r 50%|#####     | 5/10 [00:01<00:01, 4.00it/s]\r      \r{'loss': '1.0', 'learning_rate': '0', 'epoch': '1'}",
    "\r100%|##########| 10/10 [00:01<00:00, 4.00it/s]",
    "\r100%|##########| 1/1 [00:01<00:00, 4.00it/s]\x1b[A\r  \r{'eval_loss': '1.5', 'eval_runtime': '2', 'epoch': '1'}",
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


def read(
    lines: list[str],
    regexes: dict[str, str],
    pages: int = 1,
    samples_per_step: int | None = None,
    line_seconds: float = 1.0,
) -> list[Event]:
    reader, events = ScriptLogReader(regexes, samples_per_step), []
    times = [100.0 + line_seconds * at for at in range(len(lines))]
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
    # The bar before a dict may be some steps old; the one after it is not.
    assert metrics["loss"] == [(5, 101.0, 2.0), (10, 102.0, 1.0)]
    assert metrics["learning_rate"] == [(5, 101.0, 5e-5), (10, 102.0, 0.0)]
    # The table's evaluation is another one than the dict's; its training is the summary again.
    assert metrics["eval_loss"] == [(10, 104.0, 1.5), (10, 113.0, 1.25)]
    assert metrics["train_loss"] == [(10, 105.0, 1.5)]
    assert metrics["train_samples"] == [(10, 110.0, 64.0)]
    # 6.4 samples/s in 10 s are 64; the first loss came half way. Nothing is known of them before the summary.
    assert metrics["samples"] == [(5, 101.0, 32.0), (10, 102.0, 64.0), (10, 104.0, 64.0), (10, 105.0, 64.0)]
    # The 2 s of evaluation are within the 10 s of training.
    assert phase_totals(events) == {"time/eval_seconds": 2.0, "time/train_seconds": 8.0}
    assert events[-1].kind == "result"
    assert events[-1].fields["metrics"]["eval_loss"] == 1.25
    assert "loss" not in events[-1].fields["metrics"]


def test_a_second_training_adds_its_samples_and_lines_without_a_bar_are_counted() -> None:
    summary = "{'train_runtime': 10.0, 'train_samples_per_second': 10.0, 'epoch': 2.0}"
    lines = ["{'loss': 2.0, 'epoch': 1.0}", summary, "{'eval_loss': 1.0, 'epoch': 2.0}"]
    metrics = series(read([*lines, *lines], {}))
    assert [value for _, _, value in metrics["samples"]] == [50.0, 100.0, 100.0, 150.0, 200.0, 200.0]
    metrics = series(read(["{'loss': 2.0, 'epoch': 0.5}", "{'loss': 1.0, 'epoch': 1.0}"], {}))
    assert [step for step, _, _ in metrics["loss"]] == [1, 2]


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
    finals = {"eval_accuracy": 1000.5, "best/eval_accuracy": 1000.5}
    result = {"metrics": finals, "tables": {}, "steps": 20}
    assert events[-1].fields == {**result, "rate_unknown": "short"}


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


STEADY = "throughput/steady_samples_per_second"


def result_of(events: list[Event]) -> dict[str, Any]:
    return dict(events[-1].fields)


def test_a_trainer_script_that_logs_no_loss_has_the_steps_of_its_bar() -> None:
    lines = [
        "\r  0%|          | 0/3 [00:00<?, ?it/s]",
        "\r 67%|######    | 2/3 [00:01<00:00, 2.00it/s]",
        "\r100%|##########| 3/3 [00:02<00:00, 2.00it/s]",
        "\r  0%|          | 0/2 [00:00<?, ?it/s]\r100%|##########| 2/2 [00:01<00:00, 2.00it/s]",
        "{'eval_loss': 1.1, 'eval_runtime': 1.0, 'epoch': 1.0}",
        "{'train_runtime': 4.0, 'train_samples_per_second': 12.0, 'train_loss': 1.2, 'epoch': 1.0}",
    ]
    events = read(lines, {})
    metrics = series(events)
    assert [(step, value) for step, _, value in metrics["eval_loss"]] == [(3, 1.1)]
    assert [(step, value) for step, _, value in metrics["train_loss"]] == [(3, 1.2)]
    assert {(step, value) for step, _, value in metrics["samples"]} == {(3, 48.0)}
    assert result_of(events)["rate_unknown"] == "short"


def test_a_trainer_script_has_a_steady_rate_without_its_evaluations() -> None:
    bars = [f"\r  1%|#  | {step}/40 [00:01<00:01, 4.00it/s]\r" for step in (0, 10, 20, 30, 40)]
    dicts = [f"{{'loss': 1.0, 'epoch': {epoch}}}" for epoch in ("0.5", "1.0", "1.5", "2.0")]
    evaluation = "{'eval_loss': 1.0, 'eval_runtime': 3.0, 'epoch': 1.0}"
    summary = "{'train_runtime': 20.0, 'train_samples_per_second': 16.0, 'epoch': 2.0}"
    pairs = [bar + text for bar, text in zip(bars, dicts, strict=False)]
    events = read([*pairs[:2], evaluation, *pairs[2:], bars[4] + summary], {}, line_seconds=5.0)
    # 320 samples in 40 steps. Lines come every 5 s: steps 10 to 40 take 4 lines, of which 3 s are the evaluation.
    assert result_of(events)["metrics"][STEADY] == pytest.approx(30 * 8 / (20 - 3))


def test_the_users_samples_give_the_rate() -> None:
    lines = [f"samples {8 * at} loss 0.5" for at in range(1, 21)]
    events = read(lines, {"samples": r"samples (\d+)", "loss": r"loss (\S+)"})
    assert result_of(events)["metrics"][STEADY] == pytest.approx(8.0)
    assert result_of(read(["loss 0.5"] * 20, {"loss": r"loss (\S+)"}))["rate_unknown"] == "steps"


def test_the_page_size_does_not_change_the_events() -> None:
    assert all(read(TRAINER_LOG, {}, pages) == read(TRAINER_LOG, {}) for pages in range(1, len(TRAINER_LOG)))


def event(kind: str, seq: int, time: float, **fields: Any) -> str:
    return "trainfare-event " + json.dumps({"event": kind, "seq": seq, "time": time, **fields})


def counts(steps: int, **fields: Any) -> dict[str, Any]:
    steady = {"steady_seconds": 4.0, "steady_steps": steps - 10, "steady_samples": 8.0 * (steps - 10)}
    return {"steps": steps, "batches": steps, "samples": 8.0 * steps, "processes": 1, "reasons": {}, **steady, **fields}


def test_the_meter_gives_steps_samples_and_the_rate() -> None:
    lines = [
        event("start", 0, 1.0),
        event("meter", 1, 2.0, **counts(20)),
        "loss 0.5",
        event("meter", 2, 9.0, **counts(30)),
    ]
    events = read(lines, {"loss": r"loss (\S+)"})
    assert series(events)["samples"] == [(20, 2.0, 160.0), (30, 9.0, 240.0)]
    assert series(events)["loss"] == [(20, 102.0, 0.5)]
    result = result_of(events)
    assert (result["steps"], result["metrics"][STEADY]) == (30, 40.0)
    assert result["metrics"]["script/steps"] == 30


def test_what_the_meter_cannot_count_has_no_samples_and_the_reason() -> None:
    reasons = {"samples": "several models are trained together"}
    result = result_of(events := read([event("meter", 0, 2.0, **counts(20, reasons=reasons))], {}))
    assert "samples" not in series(events)
    assert (result["not_countable"], STEADY in result["metrics"]) == (reasons, False)


def test_the_counts_of_all_starts_are_added_and_repeated_points_are_recorded_once() -> None:
    begun = [event("start", 0, 1.0), event("meter", 1, 2.0, **counts(20))]
    tracked = [event("metric", 2, 3.0 + step, step=step, values={"val_loss": 1.0 / step}) for step in (10, 20)]
    again = [event("start", 0, 40.0), event("metric", 1, 41.0, step=20, values={"val_loss": 9.0})]
    lines = [*begun, *tracked, *again, event("meter", 2, 50.0, **counts(5))]
    events = read(lines, {})
    assert result_of(events)["steps"] == 25
    deduplicator = Deduplicator()
    points = [point for each in deduplicator.new_events(events) for point in deduplicator.new_points(each)]
    assert [(point.key, point.step, point.value) for point in points if point.key == "eval_loss"] == [
        ("eval_loss", 10, 0.1),
        ("eval_loss", 20, 0.05),
    ]


def test_what_a_script_logs_to_a_tracker_is_recorded_at_its_own_steps() -> None:
    lines = [event("metric", 0, 5.0, step=7, values={"val/accuracy": value}) for value in (0.25, 0.75, 0.5)]
    logged = event("logged", 3, 6.0, params={"lr": "0.1"}, tags={}, runs=1)
    events = read([*lines, logged], {})
    assert series(events)["eval_accuracy"][0] == (7, 5.0, 0.25)
    assert result_of(events)["metrics"] == {"eval_accuracy": 0.5, "best/eval_accuracy": 0.75}
    assert [each.fields["params"] for each in events if each.kind == "logged"] == [{"lr": "0.1"}]


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        *(("val_loss", "eval_loss"), ("validation/f1", "eval_f1"), ("eval_recall@10", "eval_recall_10")),
        *(
            ("train/loss", "loss"),
            ("time/epoch", "logged/time/epoch"),
            ("rewards/chosen", "rewards/chosen"),
            ("@", "_"),
        ),
    ],
)
def test_names_are_those_of_our_own_jobs_or_cannot_be_confused_with_them(name: str, recorded: str) -> None:
    assert metric_name(name) == recorded


@given(st.lists(st.text(alphabet="{}'\":,=* \r.eE+-0159alosepchvtrinmu_()/", max_size=60), max_size=8))
def test_any_line_can_be_read(lines: list[str]) -> None:
    regexes = {"step": r"s(\S+)", "samples": r"(\d+)", "x": r"l(.*)", "epoch": r"e([0-9e.+-]*)"}
    events = read([*lines, "x"], regexes)
    assert events == read([*lines, "x"], regexes) or any("nan" in line for line in lines)
    assert all(0 <= point.step < 2**53 for event in events if event.kind == "metric" for point in metric_points(event))


def rate_of(marks: list[tuple[int, float]]) -> float | None:
    rate = SteadyRate()
    for steps, time in marks:
        rate.add_steps(steps, time)
    return rate.per_second()


def test_warm_up_is_left_out_of_the_rate_and_a_short_measurement_is_none() -> None:
    # The first 10 of 100 steps take 50 s, all others half a second each.
    assert rate_of([(10, 50.0), *((10 + n, 50.0 + n / 2) for n in range(1, 91))]) == pytest.approx(2.0)
    # Steps before the first line never count.
    assert rate_of([(0, 0.0), (1, 60.0), (2, 61.0), (3, 62.0), (4, 63.0)]) == pytest.approx(1.0)
    assert rate_of([(1, 0.0), (10, 1.9)]) is None
    assert rate_of([(1, 0.0), (10, 2.0)]) == pytest.approx(4.5)
    assert rate_of([(5, 1.0)]) is None


@pytest.mark.parametrize(("evaluations", "marks"), [([5.0, 2.0], [(30, 27.0)]), ([None], [(30, 500.0), (40, 510.0)])])
def test_a_known_evaluation_is_subtracted_and_the_interval_around_another_is_left_out(
    evaluations: list[float | None], marks: list[tuple[int, float]]
) -> None:
    rate = SteadyRate()
    for steps, time in ((10, 0.0), (20, 10.0)):
        rate.add_steps(steps, time)
    for each in evaluations:
        rate.add_evaluation(each)
    for steps, time in marks:
        rate.add_steps(steps, time)
    assert rate.per_second() == pytest.approx(1.0)


def test_a_target_that_no_evaluation_logged_is_named_with_its_expression() -> None:
    reader = ScriptLogReader({"eval_loss": "loss (.*)"}, target="eval_f1")
    reader.read(["loss 0.5"], [100.0])
    notes = [event.fields["message"] for event in reader.result(101.0) if event.kind == "note"]
    assert notes == [
        "it logged no eval_f1, so it reached no target: add `script: {metrics: {eval_f1: 'f1 ([0-9.]+)'}}`"
    ]
