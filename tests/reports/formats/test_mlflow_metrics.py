"""A report's figures as metrics, and its answer in a name: tables made by hand, numbers worked out on paper."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

from reports.comparison.comparison import STEADY, Comparison, compare
from reports.comparison.report import Source, comparison_report
from reports.formats.mlflow_metrics import MAX_LABELS, metric_labels, run_metrics
from reports.formats.run_name import LONGEST, is_ours, name_with_answer
from reports.model.report import Report
from reports.probe.projections import Probes, probes_of
from reports.probe.report import probe_report
from reports.sweep.report import sweep_report
from reports.sweep.sweep import Sweep
from tests.support.reports.sweep_tables import FRONT, RATE, repeats, sweep, trial
from tests.support.reports.worked_cases import HIGH, LOW, spread

LONG = "inductor, batch 64, precision bf16, attention sdpa, dropout torch"


def row(arm: str, paid: float, steady: float = 50.0, **told: Any) -> dict[str, Any]:
    """A job that trained 2,000 samples."""
    found = {
        "run_id": f"{arm} {paid}",
        "status": "FINISHED",
        "arm": arm,
        "baseline": "true" if arm == "none" else None,
        "samples": 2000.0,
        "cost_billable_seconds": paid / 2,
        "cost_billable_instance_seconds": paid,
        STEADY: steady,
        "eval_loss": 0.4,
        "eval_accuracy": 0.9,
    }
    return {**found, **told}


def comparison(*rows: dict[str, Any]) -> Comparison:
    return compare(pd.DataFrame(list(rows)), "g")


def two_arms(paid: float, label: str = "inductor", **told: Any) -> Comparison:
    """Three jobs of 100 s in the middle, and three of an arm."""
    none = [row("none", seconds) for seconds in spread(100.0)]
    return comparison(*none, *(row(label, seconds, 70.0, **told) for seconds in spread(paid)))


def report(subject: Comparison | Probes | Sweep) -> Report:
    source = Source(title="t", tracking_uri="sqlite://", environment={}, table=pd.DataFrame())
    if isinstance(subject, Sweep):
        return sweep_report(subject, [], source)
    return probe_report(subject, [], source) if isinstance(subject, Probes) else comparison_report(subject, [], source)


def named(told: Comparison | Probes | Sweep, name: str = "compare demo") -> str:
    return name_with_answer(name, report(told))


def test_figures_of_a_comparison() -> None:
    """The middle of three is the median; 80 over 100 saves 20 %, its interval is that of the worked cases."""
    assert run_metrics(report(two_arms(80.0))) == {
        "billable_instance_seconds/none": 100.0,
        "billable_instance_seconds/inductor": 80.0,
        "steady_samples_per_second/none": 50.0,
        "steady_samples_per_second/inductor": 70.0,
        "eval_loss/none": 0.4,
        "eval_loss/inductor": 0.4,
        "eval_accuracy/none": 0.9,
        "eval_accuracy/inductor": 0.9,
        "saving_percent/inductor": pytest.approx(20.0),
        "saving_percent/inductor low": pytest.approx(100 - 80 * HIGH, rel=1e-5),
        "saving_percent/inductor high": pytest.approx(100 - 80 * LOW, rel=1e-5),
    }


def test_what_is_not_finite_is_no_figure() -> None:
    odd = {"eval_loss": math.inf, STEADY: math.nan, "cost_usd": 0.5}
    told = run_metrics(report(comparison(row("none", 100.5), row("inductor", math.nan, **odd))))
    assert told == {
        "billable_instance_seconds/none": 100.5,
        "steady_samples_per_second/none": 50.0,
        "eval_loss/none": 0.4,
        "eval_accuracy/none": 0.9,
        "eval_accuracy/inductor": 0.9,
        "usd/inductor": 0.5,
    }
    assert run_metrics(report(comparison(row("none", 1.0, status="FAILED")))) == {}
    assert run_metrics(report(compare(pd.DataFrame(), "g"))) == {}


def test_a_section_has_so_many_charts_and_no_more() -> None:
    arms = [row(f"batch {size}", 10.0 + size) for size in range(MAX_LABELS + 5) for _ in range(2)]
    told = run_metrics(report(comparison(*arms)))
    assert sum(name.startswith("billable_instance_seconds/") for name in told) == MAX_LABELS
    assert len(told) < 1000, "MLflow takes no more at once"


def test_figures_of_a_sweep() -> None:
    """The best is told by its repeats, 69, 70 and 68 s, not by its trial of 62; all jobs take 142 + 300 + 207 s."""
    trials = (trial("none", 64, 80.0), trial("inductor", 64, 62.0))
    told = run_metrics(
        report(sweep(*trials, *repeats("none", 8, 100.0, 101.0, 99.0), *repeats("inductor", 64, 69.0, 70.0, 68.0)))
    )
    best, base = (69 * 70 * 68) ** (1 / 3), (100 * 101 * 99) ** (1 / 3)
    low, high = told.pop("sweep/saving_percent low"), told.pop("sweep/saving_percent high")
    assert (round(low), round(high)) == (29, 33)
    assert told == {
        "sweep/paid_billable_instance_seconds": 649.0,
        "sweep/best_billable_seconds": pytest.approx(best),
        "sweep/base_billable_seconds": pytest.approx(base),
        "sweep/saving_percent": pytest.approx(100 * (1 - best / base)),
        "best_billable_seconds/none": 80.0,
        "best_billable_seconds/inductor": pytest.approx(best),
    }


def test_figures_of_a_sweep_for_throughput() -> None:
    """From 50 to 100 samples/s are 100 % more."""
    rates = {("none", 8): (50.0, 52.0), ("inductor", 64): (100.0, 104.0)}
    jobs = [
        each | {STEADY: rate}
        for (compiler, size), told in rates.items()
        for each, rate in zip(repeats(compiler, size, 40.0, 41.0), told, strict=True)
    ]
    found = sweep(*jobs, trial("inductor", 64, 40.0) | {STEADY: 110.0}, told=RATE)
    told = run_metrics(report(found))
    assert told["sweep/gain_percent"] == pytest.approx(100.0)
    assert told["sweep/best_steady_samples_per_second"] == pytest.approx((100 * 104) ** 0.5)
    assert "sweep/saving_percent" not in told
    assert named(found, "sweep emotion") == "inductor at batch 64, 100 % faster (sweep emotion)"


def test_figures_of_a_sweep_without_an_answer() -> None:
    assert run_metrics(report(sweep(trial("none", 8, 7.0, status="FAILED", end="failed: Error")))) == {
        "sweep/paid_billable_instance_seconds": 7.0
    }


def probes(*told: tuple[str, float, float]) -> Probes:
    """Arms with the seconds of their whole training, and what it costs; the intervals reach 10 s and 0.01 USD."""
    rows = []
    for label, seconds, usd in told:
        found = row(label, 60.0, instance_type=label, hp_probe_precision="0.05")
        for end, sign in (("", 0), ("_low", -1), ("_high", 1)):
            found |= {f"projected_billable_seconds{end}": seconds + 10 * sign, f"projected_usd{end}": usd + sign / 100}
        rows.append(found)
    return probes_of(pd.DataFrame(rows), "g", {})


def test_figures_of_probes() -> None:
    told = probes(("ml.g5", 840.0, 0.33), ("ml.p3", 610.0, 0.65))
    assert run_metrics(report(told)) == {
        "projected_billable_seconds/ml.g5": 840.0,
        "projected_billable_seconds/ml.g5 low": 830.0,
        "projected_billable_seconds/ml.g5 high": 850.0,
        "projected_usd/ml.g5": 0.33,
        "projected_usd/ml.g5 low": pytest.approx(0.32),
        "projected_usd/ml.g5 high": pytest.approx(0.34),
        "projected_billable_seconds/ml.p3": 610.0,
        "projected_billable_seconds/ml.p3 low": 600.0,
        "projected_billable_seconds/ml.p3 high": 620.0,
        "projected_usd/ml.p3": 0.65,
        "projected_usd/ml.p3 low": pytest.approx(0.64),
        "projected_usd/ml.p3 high": pytest.approx(0.66),
    }


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["none", "inductor, batch 64, rate × 2"], ["none", "inductor batch 64 rate x 2"]),
        (["a/b", 'say "$x$": \n1', "漢字 é"], ["a b", "say x 1", "漢字 é"]),
        (["a, b", "a b", "A B"], ["a b", "a b 2", "A B 3"]),
        (["..", "", "/"], ["unnamed", "unnamed 2", "unnamed 3"]),
        # Or the first one's lower end would be the second one's figure.
        (["a", "a low"], ["a", "a low 2"]),
        (["a low", "a"], ["a low", "a 2"]),
    ],
)
def test_arms_in_the_names_of_metrics(labels: list[str], names: list[str]) -> None:
    assert metric_labels(labels) == dict(zip(labels, names, strict=True))


@given(st.lists(st.text(max_size=300), unique=True, max_size=6))
def test_mlflow_takes_whatever_an_arm_is_called(labels: list[str]) -> None:
    told = [f"steady_samples_per_second/{name}{end}" for name in metric_labels(labels).values() for end in ("", " low")]
    for name in told:
        _validate_metric_name(name)
        assert len(name) <= MAX_ENTITY_KEY_LENGTH
    assert len({name.casefold() for name in told}) == 2 * len(labels)


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        (two_arms(80.0), "inductor 20 % cheaper"),
        (two_arms(80.0, "batch 64"), "batch 64, 20 % cheaper"),
        (two_arms(125.0), "nothing cheaper"),
        (two_arms(100.0), "inconclusive"),
        (two_arms(80.0, data_key="other"), "not comparable"),
        (comparison(row("none", 41.0)), "41.0 s billed"),
        (comparison(row("none", math.nan)), "billed seconds unknown"),
        (comparison(row("none", 1.0, status="FAILED")), "failed"),
        (comparison(row("none", math.nan, status="RUNNING")), "no answer yet"),
        (compare(pd.DataFrame(), "g"), "no jobs"),
        (probes(("ml.g5", 840.0, 0.33), ("ml.p3", 610.0, 0.65)), "ml.g5, 0.33 USD"),
        (probes(("ml.g5", 840.0, 0.33), ("ml.p3", 610.0, 0.34)), "ml.g5 and 1 more, 0.33 USD"),
        (probes(), "no projection"),
    ],
)
def test_answers_of_comparisons_and_probes(told: Comparison | Probes, answer: str) -> None:
    assert named(told) == f"{answer} (compare demo)"


BASE = repeats("none", 8, 100.0, 101.0, 99.0)
BEST = trial("inductor", 64, 62.0, 2.0)


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        (sweep(BEST, *BASE, *repeats("inductor", 64, 69.0, 70.0, 68.0, multiplier=2.0)),
         "inductor at batch 64, rate × 2, 31 % cheaper"),
        (sweep(BEST), "inductor at batch 64, rate × 2, the best trial"),
        (sweep(BEST, *BASE, *repeats("inductor", 64, 99.0, 103.0, 97.0, multiplier=2.0)), "inconclusive"),
        (sweep(BEST, *BASE, *repeats("inductor", 64, 120.0, 121.0, 119.0, multiplier=2.0)), "nothing cheaper"),
        (sweep(BEST, *BASE, *repeats("inductor", 64, 50.0, 51.0, multiplier=2.0, target_reached=0.0)),
         "inductor at batch 64, rate × 2, not reliably"),
        (sweep(BEST, *BASE, *repeats("inductor", 64, 50.0, 51.0, multiplier=2.0, data_key="other")), "not comparable"),
        (sweep(trial("none", 8, 60.0)), "nothing better"),
        (sweep(trial("none", 8, 60.0, status="FAILED", end="failed: Error")), "no answer"),
        (sweep(trial("none", 8, 60.0, eval_loss=0.4), trial("none", 64, 50.0, eval_loss=0.5), told=FRONT),
         "2 settings on the front"),
    ],
)  # fmt: skip
def test_answers_of_sweeps(told: Sweep, answer: str) -> None:
    assert named(told, "sweep emotion") == f"{answer} (sweep emotion)"


def test_a_long_setting_is_cut_and_its_saving_is_not() -> None:
    found = named(two_arms(80.0, LONG))
    assert found == "inductor, batch 64, precision bf16, atte…, 20 % cheaper (compare demo)"
    assert len(found) == LONGEST
    assert named(two_arms(80.0, LONG), "n" * 80) == f"inductor, b…, 20 % cheaper ({'n' * 80})"


def test_a_name_of_somebodys_own_is_known() -> None:
    assert is_ours("compare demo", "compare demo")
    assert is_ours("compare demo", named(two_arms(80.0)))
    assert not is_ours("compare demo", "inconclusive (compare demo2)")
    assert not is_ours("compare demo", "capable-auk-759")
