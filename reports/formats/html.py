"""A report as one self-contained HTML page."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reports.charts.canvas import theme_css
from reports.model.report import Charts, Command, Definitions, Items, Report, Sentences, Table, Text

_BLOCKS = (Text, Sentences, Command, Items, Definitions, Table, Charts)
_BREAKABLE = re.compile(
    r"<(style|script|svg|pre|code)\b.*?</\1>|<[^>]*>"  # matched first, so their spaces are kept
    r"|(?<=\d) (?=(?:%|s|min|h|GiB|USD|samples/s|tokens/s)(?![\w/]))|(?<=[×=]) (?=\d)| (?=× \d)|(?<=\bn) (?==)",
    re.DOTALL,
)


def html_page(report: Report) -> str:
    """Return the page, with escaped text and inline SVG charts."""
    return keep_units_with_numbers(_template().render(report=report, theme=Markup(theme_css())))


def keep_units_with_numbers(html: str) -> str:
    """Return a page with a no-break space between each number and its unit, which keeps them on one line.

    Charts, commands and code are left unchanged.
    """
    return _BREAKABLE.sub(lambda match: "\N{NO-BREAK SPACE}" if match[0] == " " else match[0], html)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("reports", "formats"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markup"] = Markup
    for kind in _BLOCKS:
        environment.tests[f"a_{kind.__name__.lower()}"] = lambda block, kind=kind: isinstance(block, kind)
    return environment.get_template("page.html.j2")
