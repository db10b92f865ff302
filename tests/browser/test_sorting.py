"""Test that the tables can be sorted with the keyboard alone, and sort by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.browser.made_reports import BILLED
from tests.support.browser.window import DESKTOP, PHONE, Window

pytestmark = pytest.mark.browser
MAX_STOPS = 80
FOCUSED = "document.activeElement.closest('table.{kind}') && document.activeElement.textContent"


def tab_to(shown: Window, kind: str, heading: str) -> None:
    """Press Tab until the table's heading has the focus."""
    for _ in range(MAX_STOPS):
        shown.page.keyboard.press("Tab")
        focused = shown.page.evaluate(FOCUSED.format(kind=kind))
        if focused and focused.startswith(heading):
            return
    raise AssertionError(f"no heading '{heading}' of {kind} within {MAX_STOPS} stops")


def column(shown: Window, kind: str, at: int) -> list[str]:
    """Return a column's texts, from top to bottom."""
    cells = shown.page.locator(f"table.{kind} tbody tr > :nth-child({at + 1})").all_text_contents()
    return [cell.strip() for cell in cells]


def sorted_by(shown: Window, kind: str) -> list[tuple[str, str]]:
    """Return the headings by which the table is sorted, with the direction."""
    script = "heads => heads.map(head => [head.textContent, head.getAttribute('aria-sort')])"
    return [tuple(each) for each in shown.page.locator(f"table.{kind} th[aria-sort]").evaluate_all(script)]


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_jobs_sort_by_billed_seconds(
    size: tuple[int, int], reports: dict[str, Path], window: Callable[..., Window]
) -> None:
    shown = window(size).open(reports["comparison"])
    before = column(shown, "jobs", 0)
    tab_to(shown, "jobs", "billable")
    focus = "getComputedStyle(document.activeElement).outlineStyle"
    assert shown.page.evaluate(focus) == "solid"
    # 97.4 and 1,204 s sort as numbers, not as text. The running job has no number.
    numbers = sorted([*(seconds for billed in BILLED.values() for seconds in billed), 1000.0])
    shown.page.keyboard.press("Enter")
    assert sorted_by(shown, "jobs") == [("billables", "ascending")]
    assert column(shown, "jobs", 3) == [*(shown_seconds(each) for each in numbers), "–"]
    shown.screenshot(f"sorted-{size[0]}")
    shown.page.keyboard.press("Enter")
    assert sorted_by(shown, "jobs") == [("billables", "descending")]
    assert column(shown, "jobs", 3) == [*(shown_seconds(each) for each in reversed(numbers)), "–"]
    shown.page.keyboard.press("Space")
    assert sorted_by(shown, "jobs") == []
    assert column(shown, "jobs", 0) == before
    assert shown.errors == []


def shown_seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def test_every_long_table_sorts_except_sums(reports: dict[str, Path], window: Callable[..., Window]) -> None:
    shown = window().open(reports["sweep"])
    long = [each for each in shown.page.get_by_role("region").all() if each.locator("tbody tr").count() >= 3]
    unsorted = [each.get_attribute("aria-label") for each in long if each.locator("th button").count() == 0]
    assert len(long) >= 4
    assert unsorted == ["Cost of the sweep"]
    # Text with numbers sorts by the numbers.
    tab_to(shown, "trials", "setting")
    shown.page.keyboard.press("Enter")
    settings = column(shown, "trials", 0)
    assert settings.index("none at batch 8") < settings.index("none at batch 64") < settings.index("none at batch 128")
