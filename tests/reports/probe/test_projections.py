"""Test projections: the cheapest arm, arms that cannot be distinguished from it, and the cost of the probes."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from judging.next_job import JobSpread
from reports.formats.html import html_page
from reports.formats.text import summary
from reports.model.report import Report
from reports.probe.report import Machine, Probes, headline, probes_of, sentences
from reports.render import render
from tests.support.answers import checked_report
from tests.support.reports.page import Page, sound_page
from tests.support.reports.reading import page_cells, terminal_text


def row(label: str, seconds: float, half: float, usd_per_hour: float | None = None, **columns: Any) -> dict[str, Any]:
    values = {
        "run_id": label,
        "status": "FINISHED",
        "arm": label,
        "instance_type": label,
        "hp_probe_precision": "0.05",
        "samples": 1000.0,
        "cost_billable_instance_seconds": 60.0,
    }
    for end, value in (("", seconds), ("_low", seconds - half), ("_high", seconds + half)):
        values[f"projected_billable_seconds{end}"] = values[f"projected_billable_instance_seconds{end}"] = value
        if usd_per_hour is not None:
            values[f"projected_usd{end}"] = value * usd_per_hour / 3600
    return {**values, **columns}


def probes(*rows: dict[str, Any], losses: dict[str, list[tuple[float, float]]] | None = None) -> Probes:
    curves = {
        name: pd.DataFrame([("loss", samples, value) for samples, value in points], columns=["key", "samples", "value"])
        for name, points in (losses or {}).items()
    }
    machines: list[Machine] = [(None, each["instance_type"], None) for each in rows]
    spreads = dict.fromkeys(machines, JobSpread(0.037, 1000, math.inf))
    return probes_of(pd.DataFrame(list(rows)), "g", curves, spreads)


def test_the_cheapest_in_dollars_and_the_fastest_by_hand() -> None:
    """3,600 s at 0.72 USD per hour cost 0.72 USD; 1,800 s at 1.80 cost 0.90: half the time at 1.25 times the cost.

    The steps are known to 1 %, and jobs differ by 3.7 %: sqrt(0.0125^2 + 0.102558^2) = 0.103317, 0.65 to 0.79 USD.
    """
    projected = probes(row("small", 3600, 36, 0.72), row("large", 1800, 18, 1.80))
    assert headline(projected) == (
        "“small” would cost 0.72 USD (0.65 to 0.79) for the whole training, the cheapest of the 2 arms."
    )
    assert sentences(projected)[0] == (
        "The fastest is “large”: 1,800 s, 2.00 times as fast as “small” at 1.25 times its cost."
    )


def test_arms_that_may_cost_the_same_are_not_distinguished() -> None:
    """The ratio of “a” to “b” has the error 1.2 * sqrt(0.05^2 + 0.0472^2 + 2 * 0.0725^2) = 0.148, above 6 %."""
    projected = probes(row("a", 1000, 40, 1.0), row("b", 1060, 40, 1.0), row("c", 2000, 40, 1.0))
    assert [each.arm.label for each in projected.as_cheap] == ["b"]
    assert headline(projected).endswith("; “b” cannot be distinguished from it.")


def test_without_enough_own_repeats_there_is_no_interval_and_no_cheapest_arm() -> None:
    unknown = probes_of(pd.DataFrame([row("a", 1000, 10), row("b", 2000, 20)]), "g", {})
    assert headline(unknown) == (
        "“a” would take 1,000 billable seconds for the whole training, the lowest of 2 estimates."
    )
    assert [each.arm.label for each in unknown.as_cheap] == ["b"]
    assert (
        "No interval for “a” and “b”: it needs an undisturbed probe and 4 tracked trainings of this model on this "
        "machine that differ only in their seed."
    ) in sentences(unknown)


def test_a_disturbed_probe_has_no_interval() -> None:
    projected = probes(row("a", 1000, 10, machine_others_cpu_percent=18.0), row("b", 2000, 20))
    assert [each.seconds.has_interval for each in projected.projected] == [False, True]
    assert headline(projected).endswith("for the whole training, the lowest of 2 estimates.")
    assert any("other processes used 18 % of the job's CPUs" in each for each in sentences(projected))
    assert any(each.startswith("No interval for “a”: ") for each in sentences(projected))


def test_losses_are_compared_after_the_same_samples() -> None:
    """Both arms saw 1,000 samples. The losses of the second half are 0.6 and 0.4, and 0.56 and 0.54; later ones do not
    count."""
    losses = {"a": [(250.0, 3.0), (600.0, 0.6), (1000.0, 0.4)], "b": [(600.0, 0.56), (1000.0, 0.54), (2000.0, 0.1)]}
    projected = probes(row("a", 1000, 10, 1.0), row("b", 900, 10, 1.0, samples=2000.0), losses=losses)
    assert "After 1,000 samples, the loss of “b” is 10.0 % above the loss of “a”." in sentences(projected)


def test_without_a_price_the_unit_is_seconds() -> None:
    assert probes(row("a", 10, 1)).unit == "billable instance seconds"
    assert probes(row("a", 10, 1), row("b", 10, 1)).unit == "billable seconds"
    assert probes(row("a", 10, 1, 1.0), row("b", 10, 1)).unit == "billable seconds"


def test_a_failed_arm_is_reported() -> None:
    no_projection = {f"projected_billable_seconds{end}": float("nan") for end in ("", "_low", "_high")}
    failed = row("b", 1, 1, status="FAILED", failure_class="Capacity", failure_message="no\nCapacityError: none left")
    projected = probes(row("a", 1000, 200), {**failed, **no_projection})
    assert "“b” has no projection: CapacityError: none left" in sentences(projected)
    # The relative error is 20 %, but 5 % was requested.
    assert any(sentence.startswith("“a” ran out of samples") for sentence in sentences(projected))
    assert headline(probes({**failed, **no_projection})) == "No projection: no arm trained for long enough."


def test_the_spread_is_that_of_own_repeats_of_the_same_model_and_machine(tracked: Any) -> None:
    """Four jobs of one setting and two of another have 4 degrees of freedom, t = 2.776445.

    Deviations of the logarithms are -a, a, -a, a and -b, b, with a = log(1.05) and b = log(1.02): the spread is
    sqrt((4 * 0.0023805 + 2 * 0.0003921) / 4) = 0.0507593. Of exact steps, the next job's interval has the half-width
    2.776445 * sqrt(2) * 0.0507593 = 0.199306.
    """
    params = {"hp.model": "small"}
    tracked.group = "repeats-1"
    for at, factor in enumerate((1 / 1.05, 1.05, 1 / 1.05, 1.05)):
        tracked.trained("none", at, 100 * factor, params=params)
    for at, factor in enumerate((1 / 1.02, 1.02)):
        tracked.trained("large", at, 50 * factor, params={**params, "hp.batch_size": 64})
    tracked.trained("another model", 0, 500.0, params={"hp.model": "large"})
    tracked.trained("another machine", 0, 900.0, params=params, tags={"platform.device": "2 x test processor"})
    tracked.trained("to a target", 0, 200.0, params={**params, "hp.target_stop": True})
    tracked.group = "probe-1"
    projected = {f"projected/billable_seconds{end}": 400.0 for end in ENDS}
    tracked.trained("none", 0, 60.0, params={**params, "hp.probe_precision": "0.05"}, metrics=projected)
    report = render(tracked.client, tracked.group, "Probe")
    [arm] = checked_report("estimates", report)["arms"]
    assert arm["spread_between_jobs"] == {"relative": pytest.approx(0.0507593, rel=1e-5), "jobs": 6}
    assert arm["seconds"]["high"] == pytest.approx(400 * 1.199306, rel=1e-5)
    assert "the spread between 6 tracked jobs of this experiment, 5.08 %" in Page(html_page(report)).text


@pytest.fixture
def report(tracked: Any) -> Report:
    tracked.group = "repeats-1"
    for at, sign in enumerate((1, -1, 1, -1)):
        tracked.trained("none", at, 100 * math.exp(0.03 * sign), params={"hp.model": "small"})
    tracked.group = "probe-1"
    for label, seconds in (("g5 & <b>", 400.0), ("g4dn", 1000.0)):
        projected = {f"projected/billable_seconds{end}": seconds * share for end, share in ENDS.items()}
        projected |= {f"projected/usd{end}": seconds * share / 1000 for end, share in ENDS.items()}
        params = {"hp.model": "small", "hp.probe_precision": "0.05"}
        tracked.trained(label, 0, 60.0, 100.0, params=params, metrics=projected)
    return render(tracked.client, tracked.group, "Machines")


ENDS = {"": 1.0, "_low": 0.97, "_high": 1.03}


def test_every_form_of_the_report_has_the_projections(report: Report) -> None:
    page = sound_page(report)
    assert "“g5 & <b>” would cost 0.40 USD (0.34 to 0.46)" in page.text
    # Four repeats differ by sqrt(4 * 0.03^2 / 3) = 0.034641, and t(0.975, 3) = 3.182446: with steps known to 3 %,
    # sqrt(0.0375^2 + 2 * (3.182446 * 0.034641)^2) = 0.160354.
    [cheapest, _] = summary(report)["arms"]
    assert cheapest["cost"] == pytest.approx({"estimate": 0.4, "low": 0.3358585, "high": 0.4641415})
    assert cheapest["step_error"] == pytest.approx(0.03)
    assert cheapest["spread_between_jobs"] == {"relative": pytest.approx(0.034641, rel=1e-5), "jobs": 4}
    assert summary(report)["not_separated_from_the_cheapest"] == []
    assert "the spread between 4 tracked jobs of this experiment, 3.46 %" in page.text
    # The loss over samples 1,100 to 2,000: the mean of exp(-i / 8) + 0.3 for i from 10 to 19.
    cells = {row["arm"]: " | ".join(row.values()) for row in page_cells(report) if "arm" in row}
    assert cells == {
        "g5 & <b>": "g5 & <b> | 0.40 0.34–0.46 | 400 336–464 | 16.0 | 100 | 1.00 | 0.474 | 2,000 | 60.0",
        "g4dn": "g4dn | 1.00 0.84–1.16 | 1,000 840–1,160 | 16.0 | 100 | 1.00 | 0.474 | 2,000 | 60.0",
    }
    assert "2 probes took 120 billable instance seconds in all." in page.text
    assert "“g5 & <b>” would cost 0.40 USD" in terminal_text(report)
