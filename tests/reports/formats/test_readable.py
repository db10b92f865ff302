"""Test that everybody can read the page: chart descriptions, numbers with units, and contrast."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reports.charts.canvas import ARM_COLOURS, ARM_MARKERS, PHASE_COLOURS, PHASE_HATCHES, end_of_axis, theme_css
from reports.formats.html import html_page
from tests.conftest import ROOT
from tests.support.reports.page import HOSTILE, compared

TEXT, GRAPHIC = 4.5, 3.0
"""Minimum contrast of text and of graphics: WCAG 2.2, 1.4.3 and 1.4.11."""


def test_charts_have_descriptions_with_numbers(tracked: Any) -> None:
    html = html_page(compared(tracked, HOSTILE))
    descriptions = dict(re.findall(r'<desc id="(\w+)-description">(.*?)</desc>', html))
    assert len(descriptions) == html.count("<svg")
    hostile = '&lt;script&gt;alert(\'x\')&lt;/script&gt; &amp; "α 漢" | $x_1$ #0072b2 id="a"'
    assert descriptions["billable"] == (
        f"none: typically 101, 100 to 102, n = 2; {hostile}: typically 81.0, −20 %, 80.5 to 81.5, n = 2."
    )
    # By hand: 2,000 samples at 100 and 101 per second take 19.9 s; 2 + 1 + 19.9 + 1.5 + 0.5 s leave 76.1 of 101 s.
    parts = "load 2.00, warm-up 1.00, training 19.9, evaluation 1.50, saving 0.5, other 76.1"
    assert descriptions["phases"].startswith(f"none  (mean of 2): 101 s, of which {parts}; ")
    # exp(-i / 8) + 0.3 + 0.005, the mean over two repeats, at the first and the twentieth point.
    assert descriptions["loss_by_samples"].startswith("none: from 1.31 at 100 samples seen to 0.398 at 2,000;")


def test_an_axis_leaves_room_for_the_notes_after_its_values() -> None:
    """Four characters of 6.2 points plus a gap of 10 are 34.8 of 348 points, a tenth, so 90 needs an axis to 100."""
    assert end_of_axis([(90.0, "12 %"), (95.0, "")], 348.0) == pytest.approx(100.0)
    assert end_of_axis([(90.0, "12 %"), (99.0, "")], 348.0) == pytest.approx(99.0 / (1 - 10 / 348))
    assert end_of_axis([(1.0, "x" * 500)]) == pytest.approx(2.5)


def theme(name: str) -> dict[str, str]:
    """Return the colours of the theme `name`, light or dark, by their property."""
    css = (ROOT / "reports" / "formats" / "page.css").read_text("utf-8")
    light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
    properties = theme_css() + light if name == "light" else theme_css() + light + rest.partition("* {")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})\b", properties))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours by WCAG 2.2's definition."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_chart_colours_and_text_have_enough_contrast(name: str) -> None:
    colours = theme(name)
    names = [f"arm-{i}" for i in range(len(ARM_COLOURS))] + [f"phase-{phase}" for phase in PHASE_COLOURS]
    assert set(names) <= colours.keys(), "the theme lacks a colour"
    low = {f"arm-{i}": contrast(colours[f"arm-{i}"], colours["card"]) for i in range(len(ARM_COLOURS))}
    assert {each: ratio for each, ratio in low.items() if ratio < GRAPHIC} == {}
    texts = {
        each: contrast(colours[each], colours["card"]) for each in ("ink", "muted", "good", "bad", "unsure", "link")
    }
    assert {each: ratio for each, ratio in texts.items() if ratio < TEXT} == {}


def test_no_information_depends_on_colour_alone() -> None:
    assert len(set(ARM_MARKERS)) == len(ARM_MARKERS) >= len(ARM_COLOURS)
    plain = [phase for phase in PHASE_COLOURS if phase not in PHASE_HATCHES]
    assert len(set(PHASE_HATCHES.values())) == len(PHASE_HATCHES)
    # Training, under either of its names, is dark; time outside the phases is pale; the queue is hollow.
    assert plain == ["queue", "train_steady", "train", "other"]
    for name in ("light", "dark"):
        colours = theme(name)
        assert contrast(colours["phase-train_steady"], colours["phase-other"]) > 2
