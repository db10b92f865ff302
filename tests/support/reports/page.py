"""A rendered report as a browser reads it, checks that all its forms are sound, and a hostile name to test it with."""

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

from reports.formats.html import html_page
from reports.formats.text import summary
from reports.model.report import Report
from reports.render import render
from tests.support.reports.reading import terminal_lines

HOSTILE = '<script>alert(\'x\')</script> & "α 漢" | $x_1$ #0072b2 id="a"'
VOID = {"meta", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Ids, addresses, tags and text of a page. Asserts that all elements are closed and no script is present."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def sound_page(report: Report, command: str = "") -> Page:
    """Check that every form of the report is well-formed, and return the page. `command` may be a long line."""
    html = html_page(report)
    page, without_charts = Page(html), re.sub(r"<svg.*?</svg>", "", html, flags=re.S)
    assert len(page.ids) == len(set(page.ids))
    assert [address for address in page.addresses if not address.startswith(("#", "http"))] == []
    assert not page.tags & {"link", "img", "iframe", "object"}
    assert not re.search(r"@import|url\((?!#)", html)
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.S):
        ElementTree.fromstring(svg.replace("xlink:href", "href"))
    json.dumps(summary(report), allow_nan=False)
    assert summary(report)["headline"] in page.text
    assert "nan" not in without_charts.lower().replace("finance", "")
    lines = terminal_lines(report)
    assert all(len(line) <= 100 for line in lines if not command or command not in line)
    assert "\x1b" not in "".join(lines)
    return page


def compared(tracked: Any, label: str = "inductor") -> Report:
    for repeat in range(2):
        tracked.trained("none", repeat, 100.5 + repeat, 100.0 + repeat, baseline=True)
        tracked.trained(label, repeat, 80.5 + repeat, 140.0 + repeat, tags={"platform.cache_state": "warm"})
    tracked.job(
        label,
        2,
        status="FAILED",
        params={"hp.batch_size": 16, "hp.learning_rate": 5e-5, "hp.seed": 2},
        tags={"platform.failure_class": "OutOfMemory", "platform.failure_message": "asked for <2 GiB>"},
    )
    return render(tracked.client, tracked.group, "Demo & more")
