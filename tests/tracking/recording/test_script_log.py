"""Script logs, worked out by hand: the numbers of each line, the resulting events and the steady rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.groups.planned_job import BatchSizes
from tracking.recording.log_formats import seconds, trainer_values
from tracking.recording.metrics import metric_points, phase_totals
from tracking.recording.script_log import ScriptLogReader, SteadyRate
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
    ],
)
def test_dicts_of_old_and_new_trainers_are_read(text: str, values: dict[str, float]) -> None:
    assert trainer_values(text) == values


def test_durations_are_converted_to_seconds() -> None:
    assert seconds("1 day, 2:03:04.50") == 86_400 + 2 * 3_600 + 3 * 60 + 4.5
    assert seconds("12:00") == 720.0


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
    batch: BatchSizes | None = None,
    line_seconds: float = 1.0,
) -> list[Event]:
    reader, events = ScriptLogReader(regexes, batch), []
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
    # The 2 s of evaluation are within the 10 s of training; the 3 s are not.
    assert phase_totals(events) == {"time/eval_seconds": 5.0, "time/train_seconds": 8.0}
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
    result = {"metrics": {"eval_accuracy": 1000.5}, "tables": {}, "steps": 20}
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
EIGHT = BatchSizes(per_update=8, per_batch=8)


def result_of(events: list[Event]) -> dict[str, Any]:
    return dict(events[-1].fields)


def test_the_announced_block_of_trainer_gives_steps_and_samples_at_once() -> None:
    block = [
        "***** Running training *****",
        "  Num examples = 100",
        f"  {TOTAL_BATCH} = 16",
        "  Total optimization steps = 14",
    ]
    dicts = [f"{{'loss': 1.0, 'epoch': {epoch}}}" for epoch in ("0.4286", "0.8571", "1", "1.429", "2")]
    summary = "{'train_runtime': 9.0, 'train_samples_per_second': 22.2, 'epoch': 2.0}"
    events = read([*block, *dicts, summary], {}, line_seconds=2.0)
    metrics = series(events)
    assert [step for step, _, _ in metrics["loss"]] == [3, 6, 7, 10, 14]
    assert [value for _, _, value in metrics["samples"]] == [48, 96, 100, 148, 200, 200]
    # From step 3 to step 14 in four lines of 2 s; a step has 200/14 samples.
    assert result_of(events)["metrics"][STEADY] == pytest.approx(11 / 8 * 200 / 14)


def test_a_trainer_script_that_logs_no_loss_has_the_steps_of_its_bar() -> None:
    lines = [
        "\r  0%|          | 0/3 [00:00<?, ?it/s]",
        "\r 67%|######    | 2/3 [00:01<00:00, 2.00it/s]",
        "\r100%|##########| 3/3 [00:02<00:00, 2.00it/s]",
        "\r  0%|          | 0/2 [00:00<?, ?it/s]\r100%|##########| 2/2 [00:01<00:00, 2.00it/s]",
        "{'eval_loss': 1.1, 'eval_runtime': 1.0, 'epoch': 1.0}",
        "{'train_runtime': 4.0, 'train_samples_per_second': 12.0, 'train_loss': 1.2, 'epoch': 1.0}",
    ]
    events = read(lines, {}, batch=BatchSizes(per_update=16, per_batch=16))
    metrics = series(events)
    assert [(step, value) for step, _, value in metrics["eval_loss"]] == [(3, 1.1)]
    assert [(step, value) for step, _, value in metrics["train_loss"]] == [(3, 1.2)]
    assert [(step, value) for step, _, value in metrics["samples"]] == [(3, 48.0), (3, 48.0)]
    assert result_of(events)["rate_unknown"] == "short"


TOTAL_BATCH = "Total train batch size (w. parallel, distributed & accumulation)"


def test_a_trainer_script_has_a_steady_rate_without_its_evaluations() -> None:
    bars = [f"\r  1%|#  | {step}/40 [00:01<00:01, 4.00it/s]\r" for step in (0, 10, 20, 30, 40)]
    dicts = [f"{{'loss': 1.0, 'epoch': {epoch}}}" for epoch in ("0.5", "1.0", "1.5", "2.0")]
    evaluation = "{'eval_loss': 1.0, 'eval_runtime': 3.0, 'epoch': 1.0}"
    summary = "{'train_runtime': 20.0, 'train_samples_per_second': 16.0, 'epoch': 2.0}"
    pairs = [bar + text for bar, text in zip(bars, dicts, strict=False)]
    events = read([*pairs[:2], evaluation, *pairs[2:], bars[4] + summary], {}, line_seconds=5.0)
    # 320 samples in 40 steps. Lines come every 5 s: steps 10 to 40 take 4 lines, of which 3 s are the evaluation.
    assert result_of(events)["metrics"][STEADY] == pytest.approx(30 * 8 / (20 - 3))


def test_an_accelerate_script_is_read_from_its_bar() -> None:
    block = [
        "***** Running training *****",
        "  Num examples = 100",
        f"  {TOTAL_BATCH} = 16",
        "  Total optimization steps = 14",
    ]
    bars = "".join(f"\r  1%|  | {step}/14 [00:{5 * step:02}<00:01, 4.00it/s]" for step in range(7))
    later = "".join(f"\r  1%|  | {step}/14 [00:{5 * step - 20:02}<00:01, 4.00it/s]" for step in range(8, 15))
    lines = [*block, f"{bars}INFO - epoch 0: {{'accuracy': 0.25}}", f"{later}INFO - epoch 1: {{'accuracy': 0.5}}"]
    metrics = series(events := read(lines, {}))
    assert metrics["eval_accuracy"] == [(6, 104.0, 0.25), (14, 105.0, 0.5)]
    assert metrics["samples"][-1][2] == 200
    # The bar shows 5 s for each step. The interval around the evaluation is left out.
    assert result_of(events)["metrics"][STEADY] == pytest.approx(200 / 14 / 5)


def test_nanogpt_has_steps_samples_and_a_rate() -> None:
    settings = ["Overriding: batch_size = 4", "Overriding: gradient_accumulation_steps = 2"]
    lines = [f"iter {step}: loss 2.0, time 9.00ms, mfu 1.00%" for step in range(0, 50, 2)]
    lines.insert(10, "step 20: train loss 2.1, val loss 2.2")
    events = read([*settings, *lines], {}, line_seconds=4.0)
    metrics = series(events)
    assert [step for step, _, _ in metrics["loss"]] == list(range(0, 50, 2))
    assert metrics["eval_loss"] == [(20, 148.0, 2.2)]
    assert metrics["samples"][-1][2] == 49 * 8
    assert result_of(events)["metrics"][STEADY] == pytest.approx(2 * 8 / 4)


def test_samples_of_a_batch_come_from_the_experiment() -> None:
    lines = [
        f"| epoch   {epoch} | {batch:5d}/   33 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23"
        for epoch in (1, 2)
        for batch in (5, 10, 15, 20, 25, 30)
    ]
    lines.insert(6, "| end of epoch   1 | time:  0.47s | valid loss  2.89 | valid ppl    18.01")
    events = read(lines, {}, batch=EIGHT, line_seconds=5.0)
    assert [value for _, _, value in series(events)["samples"]][:2] == [48, 88]
    assert result_of(events)["metrics"][STEADY] == pytest.approx(8.0)  # 5 batches of 8 in 5 s
    unknown = result_of(read(lines, {}, line_seconds=5.0))
    assert (unknown["rate_unknown"], STEADY in unknown["metrics"]) == ("samples", False)


def test_what_a_step_is_must_be_certain() -> None:
    lines = [f"\r  1%|#  | {step}/500 [00:{step // 10:02}<00:01, 4.00it/s, loss=0.5]" for step in range(0, 500, 5)]
    accumulating = BatchSizes(per_update=32, per_batch=8)
    assert result_of(read(lines, {}, batch=accumulating))["rate_unknown"] == "samples"
    assert result_of(read(lines, {}, batch=EIGHT))["metrics"][STEADY] == pytest.approx(80, rel=0.05)


def test_partial_batches_leave_the_samples_uncertain() -> None:
    bars = [f"Epoch {epoch}:  1%|#  | {n}/10 [00:{n:02}<00:01, 4.00it/s]" for epoch in (1, 2) for n in (1, 5, 10)]
    result = result_of(read(bars, {}, batch=EIGHT))
    assert result["metrics"]["samples_fewest"] == 20 * 8 - 2 * 7


def test_the_users_samples_give_the_rate() -> None:
    lines = [f"samples {8 * at} loss 0.5" for at in range(1, 21)]
    events = read(lines, {"samples": r"samples (\d+)", "loss": r"loss (\S+)"})
    assert result_of(events)["metrics"][STEADY] == pytest.approx(8.0)
    assert result_of(read(["loss 0.5"] * 20, {"loss": r"loss (\S+)"}))["rate_unknown"] == "steps"


def test_the_page_size_does_not_change_the_events() -> None:
    assert all(read(TRAINER_LOG, {}, pages) == read(TRAINER_LOG, {}) for pages in range(1, len(TRAINER_LOG)))


@given(st.lists(st.text(alphabet="{}'\":,=* \r.eE+-0159alosepchvtrinmu_()/", max_size=60), max_size=8))
def test_any_line_can_be_read(lines: list[str]) -> None:
    regexes = {"step": r"s(\S+)", "samples": r"(\d+)", "x": r"l(.*)", "epoch": r"e([0-9e.+-]*)"}
    events = read([*lines, "x"], regexes)
    assert events == read([*lines, "x"], regexes) or any("nan" in line for line in lines)
    assert all(0 <= point.step < 2**53 for event in events if event.kind == "metric" for point in metric_points(event))


def rate_of(marks: list[tuple[int, float]], clock: int | None = None) -> float | None:
    rate = SteadyRate()
    for steps, time in marks:
        rate.add_steps(steps, time, clock)
    return rate.per_second()


def test_warm_up_is_left_out_of_the_rate_and_a_short_measurement_is_none() -> None:
    # The first 10 of 100 steps take 50 s, all others half a second each.
    assert rate_of([(10, 50.0), *((10 + n, 50.0 + n / 2) for n in range(1, 91))]) == pytest.approx(2.0)
    # Steps before the first line never count.
    assert rate_of([(0, 0.0), (1, 60.0), (2, 61.0), (3, 62.0), (4, 63.0)]) == pytest.approx(1.0)
    assert rate_of([(1, 0.0), (10, 1.9)]) is None
    assert rate_of([(1, 0.0), (10, 2.0)]) == pytest.approx(4.5)
    # Bars show whole seconds.
    assert rate_of([(1, 0.0), (10, 9.0)], clock=1) is None
    assert rate_of([(1, 0.0), (10, 10.0)], clock=1) == pytest.approx(0.9)
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


def test_times_of_two_bars_are_not_subtracted() -> None:
    rate = SteadyRate()
    for steps, time, clock in ((10, 0, 1), (30, 20, 1), (31, 1, 2), (51, 21, 2)):
        rate.add_steps(steps, time, clock)
    assert rate.per_second() == pytest.approx(1.0)
