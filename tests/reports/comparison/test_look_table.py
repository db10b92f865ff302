"""Test that the looks and what stopped each arm are in the page, the run's description and `summary.json`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judging.design import Design
from reports.formats.figures import summary
from reports.formats.html import html_page
from reports.formats.markdown import markdown
from reports.model.report import Report
from reports.render import render
from tests.support.reports.worked_cases import spread
from tracking.groups.plan_file import DESIGN, write_design
from training.contract.errors import InputError


def reported(tracked: Any, design: Design | None, baseline: tuple[float, ...], **arms: tuple[float, ...]) -> Report:
    """Return the report of a stored group."""
    tags = {"platform.kind": "group", "platform.group": tracked.group, "platform.verb": "compare"}
    tracked.client.create_run(tracked.experiment_id, tags=tags | ({DESIGN: write_design(design)} if design else {}))
    for label, costs in {"none": baseline, **arms}.items():
        for repeat, seconds in enumerate(costs):
            tracked.trained(label, repeat, seconds, baseline=label == "none", losses=[])
    return render(tracked.client, tracked.group, "t")


BASELINE = (100.0, 101.0, 99.0, 102.0, 98.0)
LATE = (97.0, 94.0, 91.0, 95.0, 93.0)


def test_every_form_shows_the_looks_and_what_stopped_the_arms(tracked: Any) -> None:
    report = reported(tracked, Design(looks=(3, 5)), BASELINE, early=(60.0, 61.0, 59.0), late=LATE)
    page, text, numbers = html_page(report), markdown(report), summary(report)
    assert "The looks" in page
    assert "| repeats | early | late |" in text
    [first, second] = [line for line in text.splitlines() if line.startswith("| after ")]
    assert first.startswith("| after 3 | 40 % fewer (")
    assert "; stops: it is cheaper |" in first
    assert first.endswith("; continues |")
    assert second.startswith("| after 5 | stopped |")
    assert [each["repeats"] for each in numbers["looks"]] == [3, 5]
    assert [list(each["arms"]) for each in numbers["looks"]] == [["early", "late"], ["late"]]
    assert numbers["looks"][0]["arms"]["early"]["stops"] == "cheaper"
    assert numbers["looks"][0]["arms"]["early"]["ratio"]["estimate"] == pytest.approx(0.6, rel=1e-3)
    assert numbers["looks"][0]["arms"]["late"]["stops"] is None
    assert list(numbers["stopped"]) == ["early", "late"]


def test_a_group_without_looks_has_none(tracked: Any) -> None:
    report = reported(tracked, None, BASELINE, late=LATE)
    assert "The looks" not in markdown(report)
    assert (summary(report)["looks"], summary(report)["stopped"], summary(report)["rules"]) == ([], {}, 1)


@pytest.mark.parametrize(
    ("rules", "level", "quantile", "outcome"),
    [
        # Pocock's spending at a third of the repeats: 0.05 * log(1 + (e - 1) / 3).
        (2, 0.0226416, 3.605769, "inconclusive"),
        # Hwang, Shih and DeCani's: 0.05 * (1 - e^-1) / (1 - e^-3).
        (3, 0.0332620, 3.188558, "cheaper"),
    ],
)
def test_a_stored_group_is_reported_by_the_rules_it_ran_under(
    tracked: Any, rules: int, level: float, quantile: float, outcome: str
) -> None:
    """0.893 has the logarithm -0.113169. The error is 0.0333310 with 4 degrees of freedom, see `worked_cases`: by
    version 2 the interval reaches 0.120184 to each side, by version 3 only 0.106278."""
    report = reported(tracked, Design(looks=(3, 9), rules=rules), spread(100.0), inductor=spread(89.3))
    numbers = summary(report)
    assert (report.rules, numbers["rules"]) == (rules, rules)
    assert f"Judged by version {rules} of the rules" in html_page(report)
    look = numbers["looks"][0]["arms"]["inductor"]
    assert look["level"] == pytest.approx(level, rel=1e-4)
    assert math.log(look["ratio"]["high"] / look["ratio"]["estimate"]) == pytest.approx(quantile * 0.0333310, rel=1e-4)
    assert numbers["contrasts"][0]["outcome"] == outcome


def test_a_group_with_a_damaged_tag_is_not_reported_by_other_rules(tracked: Any) -> None:
    reported(tracked, None, BASELINE, late=LATE)
    tags = {"platform.kind": "group", "platform.group": tracked.group, DESIGN: "{"}
    tracked.client.create_run(tracked.experiment_id, tags=tags)
    with pytest.raises(InputError, match=r"tag platform\.design of group .demo-1. is .\{.: it must be"):
        render(tracked.client, tracked.group, "t")
