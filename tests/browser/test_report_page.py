"""Test the report in a browser: nothing fails, the answer is in view, and everybody can read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser.window import DESKTOP, NARROW, PHONE, Window

pytestmark = pytest.mark.browser
PAGES = ("comparison", "sweep", "probes", "real")
SIZES = {"desktop": DESKTOP, "phone": PHONE, "narrow": NARROW}
CHART_OVERHANG = """
charts => charts.flatMap(chart => {
  const frame = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 2 || box.right > frame.right + 2
      || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
  }).map(text => text.textContent);
})
"""
"""Texts that reach beyond the edge of their chart."""
SMALLEST_TEXT = """
charts => Math.min(...charts.flatMap(chart => {
  const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  return [...chart.querySelectorAll("text")].map(text => scale * parseFloat(getComputedStyle(text).fontSize));
}))
"""
"""Displayed size of the smallest text in the charts, pixels."""


@pytest.fixture(params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("size", SIZES)
def test_the_page_shows_the_answer_and_charts_that_can_be_read(
    name: str, size: str, reports: dict[str, Path], window: Callable[..., Window]
) -> None:
    shown = window(SIZES[size]).open(reports[name])
    shown.screenshot(f"{name}-{size}")
    shown.screenshot(f"{name}-{size}-first", whole=False)
    assert shown.errors == []
    assert shown.requests == [reports[name].as_uri()]
    assert shown.in_view(".answer > strong")
    assert shown.overhang() <= 0
    if size != "desktop":
        assert shown.cut_tables() == 0
    if name == "comparison" and size != "narrow":
        assert "95 % interval" in (shown.page.locator(".arms p").first.text_content() or "")
        assert shown.in_view(".arms p")
    charts = shown.page.locator("svg")
    assert charts.count() >= 3
    for chart in charts.all():
        box = chart.bounding_box()
        assert box
        assert box["width"] > 200
        assert box["height"] > 50
        assert chart.get_attribute("role") == "img"
        for part in ("labelledby", "describedby"):
            text = shown.page.locator(f"#{chart.get_attribute(f'aria-{part}')}").text_content()
            assert text
        assert any(letter.isdigit() for letter in text or "")
    assert charts.evaluate_all(CHART_OVERHANG) == []
    if size != "narrow":
        assert shown.page.locator("svg.chart").evaluate_all(SMALLEST_TEXT) >= (10 if size == "phone" else 12)
    shown.without_colour()
    shown.screenshot(f"{name}-{size}-without-colour")
    assert shown.page.evaluate("[...document.images].filter(image => !image.naturalWidth).length") == 0


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark"), ("narrow", "light")])
def test_the_overview_is_accessible_and_shows_the_answer(
    size: str, scheme: str, reports: dict[str, Path], window: Callable[..., Window]
) -> None:
    shown = window(SIZES[size], color_scheme=scheme).open(reports["overview"])
    shown.screenshot(f"overview-{size}-{scheme}")
    assert shown.errors == []
    assert shown.in_view(".answer > strong")
    assert shown.overhang() <= 0
    assert shown.cut_tables() == 0
    assert shown.severe_violations(f"overview-{size}-{scheme}") == []


def test_the_page_has_no_severe_accessibility_violations(
    name: str, reports: dict[str, Path], window: Callable[..., Window]
) -> None:
    shown = window(DESKTOP, color_scheme="light").open(reports[name])
    assert shown.severe_violations(f"{name}-light") == []
    shown = window(PHONE, color_scheme="dark").open(reports[name])
    shown.screenshot(f"{name}-dark")
    assert shown.severe_violations(f"{name}-dark") == []
    assert lightness(shown, "body", "backgroundColor") < 0.2
    assert lightness(shown, "body", "color") > 0.7
    assert lightness(shown, "svg text", "fill") > 0.5


def test_a_dark_page_is_printed_black_on_white_and_complete(
    name: str, reports: dict[str, Path], window: Callable[..., Window], tmp_path: Path
) -> None:
    # A4 landscape without its margins.
    shown = window((1047, 718), color_scheme="dark").open(reports[name])
    shown.page.emulate_media(media="print")
    shown.screenshot(f"{name}-print")
    assert lightness(shown, "body", "backgroundColor") == 1
    assert lightness(shown, ".answer", "color") < 0.2
    assert shown.overhang() <= 0
    assert shown.cut_tables() == 0
    paper = tmp_path / "report.pdf"
    shown.page.pdf(path=paper, prefer_css_page_size=True)
    assert paper.read_bytes().startswith(b"%PDF-")
    assert paper.stat().st_size > 20_000


def style(shown: Window, selector: str, prop: str) -> str:
    """Return a computed style of the first element that matches `selector`."""
    return str(shown.page.locator(selector).first.evaluate(f"part => getComputedStyle(part).{prop}"))


def lightness(shown: Window, selector: str, prop: str) -> float:
    """Return the mean of a colour's channels, 0 to 1."""
    colour: Any = style(shown, selector, prop)
    channels = [float(each) for each in colour[colour.index("(") + 1 : -1].split(",")][:3]
    return sum(channels) / 3 / 255
