"""A report as one self-contained HTML page."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reports.charts.canvas import theme_css
from reports.model.report import Charts, Command, Definitions, Items, Report, Table, Text

_BLOCKS = (Text, Command, Items, Definitions, Table, Charts)


def html_page(report: Report) -> str:
    """Return the page, with escaped text and inline SVG charts."""
    return _template().render(report=report, theme=Markup(theme_css()))


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
