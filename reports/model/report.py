"""A report: its answer, its sections and the accompanying data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reports.model.blocks import Block, Chart, Charts
from reports.model.table import Table


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure for comparing reports with each other."""

    name: str
    label: str = ""
    """Arm or compiler that the figure belongs to; empty for a figure of the whole report."""
    value: float
    """NaN if unknown."""
    interval: tuple[float, float] | None = None
    """Ends of its 95 % interval, or None."""


@dataclass(frozen=True)
class ShortAnswer:
    """The answer, short enough for a run's name."""

    setting: str
    """Setting that the answer is about; may be empty."""
    text: str
    """Text after the setting, such as ` 20 % cheaper`."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report, for all output formats.

    The page shows `answer` and `sections`. The terminal and Markdown have separate lists with fewer blocks, where the
    main table comes right after the headline.
    """

    group: str
    """Id of the group, or ids of the groups, that the jobs belong to."""
    title: str
    headline: str
    """The answer in one sentence."""
    answer: tuple[Block, ...] = ()
    """Blocks right below the headline on the page."""
    sections: tuple[Section, ...] = ()
    terminal: tuple[Block, ...] = ()
    markdown: tuple[Block, ...] = ()
    missing: tuple[str, ...] = ()
    """One sentence for each kind of data that the report lacks."""
    summary: Mapping[str, Any]
    """Numbers and verdicts for `summary.json`."""
    metrics: tuple[Metric, ...] = ()
    short_answer: ShortAnswer = ShortAnswer("", "")
    results: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of the arms with a result that `--fail-on` may name; see `reports.comparison.fail_on`."""
    rules: int | None = None
    """Version of the rules that judged a comparison."""
    comparison_table: Table | None = None
    """Table that MLflow's table view shows."""
    rows_csv: str
    """One line per job, or per group for an overview."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts."""
        blocks = [block for section in self.sections for block in section.blocks]
        return tuple(chart for block in blocks if isinstance(block, Charts) for chart in block.charts)
