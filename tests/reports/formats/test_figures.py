"""Test a report's metrics and its answer in a run name, with hand-made tables and hand-worked numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

from judging.next_job import JobSpread
from reports.comparison.comparison import Comparison, compare
from reports.comparison.report import Source, comparison_report
from reports.formats.text import MAX_LABELS, is_ours, metric_labels, name_with_answer, run_metrics
from reports.model.report import Report
from reports.probe.report import Probes, probe_report, probes_of
from reports.sweep.report import sweep_report
from reports.sweep.sweep import Sweep
from tests.support.reports.sweep_tables import FRONT, RATE, make_sweep, rate_repeats, rate_trial, repeats, trial
from tests.support.reports.verdicts import job_row
from tests.support.reports.worked_cases import HIGH, LOW, spread
from tracking.recorded.recorded_job import STEADY

LONG = "inductor, batch 64, precision bf16, attention sdpa, dropout torch"


def row(arm: str, billed: float, steady: float = 50.0, **columns: Any) -> dict[str, Any]:
    return job_row(arm, billed, **{"cost_billable_seconds": billed / 2, STEADY: steady, "eval_loss": 0.4, **columns})


def comparison(*rows: dict[str, Any]) -> Comparison:
    return compare(pd.DataFrame(list(rows)), "g")


def two_arms(billed: float, label: str = "inductor", **columns: Any) -> Comparison:
    """Compare three baseline jobs of about 100 s with three jobs of an arm."""
    sides = (("none", 100.0, 50.0, {}), (label, billed, 70.0, columns))
    rows = [
        row(name, seconds, steady, repeat=at, hp_seed=str(at), **more)
        for name, middle, steady, more in sides
        for at, seconds in enumerate(spread(middle))
    ]
    return comparison(*rows)


def report(subject: Comparison | Probes | Sweep) -> Report:
    source = Source(title="t", tracking_uri="sqlite://", environment={}, table=pd.DataFrame())
    if isinstance(subject, Sweep):
        return sweep_report(subject, [], source)
    return probe_report(subject, [], source) if isinstance(subject, Probes) else comparison_report(subject, [], source)


def run_name(subject: Comparison | Probes | Sweep, name: str = "compare demo") -> str:
    return name_with_answer(name, report(subject))


def test_figures_of_a_comparison() -> None:
    """80 s against 100 s saves 20 %; the interval is that of the worked cases."""
    expected = {
        "billable_instance_seconds/none": 100.0,
        "billable_instance_seconds/inductor": 80.0,
        "steady_samples_per_second/none": 50.0,
        "steady_samples_per_second/inductor": 70.0,
        "eval_loss/none": 0.4,
        "eval_loss/inductor": 0.4,
        "eval_accuracy/none": 0.9,
        "eval_accuracy/inductor": 0.9,
        "saving_percent/inductor": 20.0,
        "saving_percent/inductor low": 100 - 80 * HIGH,
        "saving_percent/inductor high": 100 - 80 * LOW,
    }
    assert run_metrics(report(two_arms(80.0))) == pytest.approx(expected, rel=1e-5)


def test_the_number_of_charts_per_section_is_limited() -> None:
    arms = [row(f"batch {size}", 10.0 + size) for size in range(MAX_LABELS + 5) for _ in range(2)]
    metrics = run_metrics(report(comparison(*arms)))
    assert sum(name.startswith("billable_instance_seconds/") for name in metrics) == MAX_LABELS
    assert len(metrics) < 1000, "MLflow accepts no more in one request"


def test_figures_of_a_sweep() -> None:
    """The best setting's cost comes from its repeats, 69, 70 and 68 s, not from its trial of 62 s. All jobs take 142 +
    300 + 207 s."""
    trials = (trial("none", 64, 80.0), trial("inductor", 64, 62.0))
    metrics = run_metrics(
        report(make_sweep(*trials, *repeats("none", 8, 100.0, 101.0, 99.0), *repeats("inductor", 64, 69.0, 70.0, 68.0)))
    )
    best, base = (69 * 70 * 68) ** (1 / 3), (100 * 101 * 99) ** (1 / 3)
    low, high = metrics.pop("sweep/saving_percent low"), metrics.pop("sweep/saving_percent high")
    assert (round(low), round(high)) == (29, 33)
    assert metrics == {
        "sweep/paid_billable_instance_seconds": 649.0,
        "sweep/best_billable_seconds": pytest.approx(best),
        "sweep/base_billable_seconds": pytest.approx(base),
        "sweep/saving_percent": pytest.approx(100 * (1 - best / base)),
        "best_billable_seconds/none": 80.0,
        "best_billable_seconds/inductor": pytest.approx(best),
    }


def test_figures_of_a_sweep_for_throughput() -> None:
    """100 samples/s is 100 % more than 50."""
    jobs = [*rate_repeats("none", 8, 50.0, 52.0), *rate_repeats("inductor", 64, 100.0, 104.0)]
    rate_sweep = make_sweep(*jobs, rate_trial("inductor", 64, 110.0), document=RATE)
    job_rates = run_metrics(report(rate_sweep))
    assert job_rates["sweep/gain_percent"] == pytest.approx(100.0)
    assert job_rates["sweep/best_steady_samples_per_second"] == pytest.approx((100 * 104) ** 0.5)
    assert "sweep/saving_percent" not in job_rates
    assert run_name(rate_sweep, "sweep emotion") == "inductor at batch 64, 100 % faster (sweep emotion)"


def probes(*arms: tuple[str, float, float]) -> Probes:
    """Return probes of arms, given as (label, seconds, USD) of the whole training, within ± 10 s and ± 0.01 USD."""
    rows = []
    for label, seconds, usd in arms:
        values = row(label, 60.0, instance_type=label, hp_probe_precision="0.05")
        for end, sign in (("", 0), ("_low", -1), ("_high", 1)):
            values |= {f"projected_billable_seconds{end}": seconds + 10 * sign, f"projected_usd{end}": usd + sign / 100}
        rows.append(values)
    many = JobSpread(0.037, 1000, math.inf)
    return probes_of(pd.DataFrame(rows), "g", {}, {(None, label, None): many for label, _, _ in arms})


def test_figures_of_probes() -> None:
    """The half-width of 840 s is 840 * sqrt((1.25 * 10 / 840)^2 + 0.102558^2) = 87.05; that of the cost follows."""
    assert run_metrics(report(probes(("ml.g5", 840.0, 0.33)))) == {
        "projected_billable_seconds/ml.g5": 840.0,
        "projected_billable_seconds/ml.g5 low": pytest.approx(752.95, rel=1e-4),
        "projected_billable_seconds/ml.g5 high": pytest.approx(927.05, rel=1e-4),
        "projected_usd/ml.g5": 0.33,
        "projected_usd/ml.g5 low": pytest.approx(0.293922, rel=1e-4),
        "projected_usd/ml.g5 high": pytest.approx(0.366078, rel=1e-4),
    }


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["none", "inductor, batch 64, rate × 2"], ["none", "inductor batch 64 rate x 2"]),
        (["a/b", 'say "$x$": \n1', "漢字 é"], ["a b", "say x 1", "漢字 é"]),
        (["a, b", "a b", "A B"], ["a b", "a b 2", "A B 3"]),
        # Otherwise the first arm's lower end would have the name of the second arm's figure.
        (["a", "a low"], ["a", "a low 2"]),
    ],
)
def test_labels_become_metric_names(labels: list[str], names: list[str]) -> None:
    assert metric_labels(labels) == dict(zip(labels, names, strict=True))


@given(st.lists(st.text(max_size=300), unique=True, max_size=6))
def test_mlflow_accepts_the_name_of_any_arm(labels: list[str]) -> None:
    names = [f"steady_samples_per_second/{key}{end}" for key in metric_labels(labels).values() for end in ("", " low")]
    for key in names:
        _validate_metric_name(key)
        assert len(key) <= MAX_ENTITY_KEY_LENGTH
    assert len({key.casefold() for key in names}) == 2 * len(labels)


@pytest.mark.parametrize(
    ("subject", "answer"),
    [
        (two_arms(80.0), "inductor 20 % cheaper"),
        (two_arms(80.0, "batch 64"), "batch 64, 20 % cheaper"),
        (two_arms(125.0), "nothing cheaper"),
        (two_arms(80.0, data_key="other"), "not comparable"),
        (comparison(row("none", 41.0)), "41.0 s billed"),
        (comparison(row("none", 1.0, status="FAILED")), "failed"),
        (comparison(row("none", math.nan, status="RUNNING")), "no answer yet"),
        (compare(pd.DataFrame(), "g"), "no jobs"),
        (probes(("ml.g5", 840.0, 0.33), ("ml.p3", 610.0, 0.65)), "ml.g5, 0.33 USD"),
        (probes(("ml.g5", 840.0, 0.33), ("ml.p3", 610.0, 0.34)), "ml.g5 and 1 more, 0.33 USD"),
        (probes(), "no projection"),
    ],
)
def test_answers_of_comparisons_and_probes(subject: Comparison | Probes, answer: str) -> None:
    assert run_name(subject) == f"{answer} (compare demo)"


BASE = repeats("none", 8, 100.0, 101.0, 99.0)
BEST = trial("inductor", 64, 62.0, 2.0)


@pytest.mark.parametrize(
    ("subject", "answer"),
    [
        (make_sweep(BEST, *BASE, *repeats("inductor", 64, 69.0, 70.0, 68.0, multiplier=2.0)),
         "inductor at batch 64, rate × 2, 31 % cheaper"),
        (make_sweep(BEST, *BASE, *repeats("inductor", 64, 90.0, 100.0, 95.0, multiplier=2.0)), "inconclusive"),
        (make_sweep(BEST, *BASE, *repeats("inductor", 64, 50.0, 51.0, multiplier=2.0, target_reached=0.0)),
         "inductor at batch 64, rate × 2, not reliably"),
        (make_sweep(BEST, *BASE, *repeats("inductor", 64, 50.0, 51.0, multiplier=2.0, data_key="other")),
         "not comparable"),
        (make_sweep(trial("none", 8, 60.0)), "nothing better"),
        (make_sweep(trial("none", 8, 60.0, status="FAILED", end="failed: Error")), "no answer"),
        (make_sweep(trial("none", 8, 60.0, eval_loss=0.4), trial("none", 64, 50.0, eval_loss=0.5), document=FRONT),
         "2 Pareto-optimal settings"),
    ],
)  # fmt: skip
def test_answers_of_sweeps(subject: Sweep, answer: str) -> None:
    assert run_name(subject, "sweep emotion") == f"{answer} (sweep emotion)"


def test_a_long_setting_is_cut_and_its_saving_is_not() -> None:
    name = run_name(two_arms(80.0, LONG))
    assert name == "inductor, batch 64, precision bf16, att…, 20 % cheaper (compare demo)"
    # A renamed run is recognised.
    assert is_ours("compare demo", "compare demo")
    assert is_ours("compare demo", name)
    assert not is_ours("compare demo", "inconclusive (compare demo2)")
