"""Factorial table of a comparison that varies compiler and batch size: their separate and joint effects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reports.comparison.arms import Arm
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import BILLABLE
from reports.comparison.messages import noun
from reports.model.numbers import NONE, change, change_interval, figure
from reports.model.table import Cell, Heading, Row, Table


@dataclass(frozen=True, kw_only=True)
class Factorial:
    """Arms by compiler and batch size; some pairs may be missing."""

    compilers: tuple[str, ...]
    """The baseline's first."""
    batch_sizes: tuple[float, ...]
    """Samples per device, the baseline's first."""
    arms: Mapping[tuple[str, float], Arm]
    contrasts: Mapping[tuple[str, float], Contrast]
    """Contrasts of the arms other than the baseline."""
    costs: Mapping[tuple[str, float], float]
    """Typical costs in billable instance seconds, as the verdicts compare them; some may be missing."""

    def texts(self, compiler: str, batch_size: float) -> tuple[str, str]:
        """Return a cell's texts: the change against the baseline with its interval, and the typical cost."""
        arm, contrast = self.arms.get((compiler, batch_size)), self.contrasts.get((compiler, batch_size))
        cost = self.costs.get((compiler, batch_size))
        detail = "" if cost is None else f"{figure(cost)} s"
        if arm is None:
            return NONE, ""
        if contrast is None:
            return "baseline", detail
        ratio = contrast.verdict.ratio
        return (f"{change(ratio.estimate)} ({change_interval(ratio)})" if ratio else contrast.verdict.outcome), detail

    def sentences(self) -> list[str]:
        """Return the effects of the compiler alone, the batch size alone, and both together."""
        compiler, batch_size = self.compilers[0], self.batch_sizes[0]
        sentences = []
        for (other, size), contrast in self.contrasts.items():
            if contrast.verdict.ratio is None:
                continue
            if size == batch_size:
                factors = f"{other} alone, at batch {batch_size:g}"
            elif other == compiler:
                factors = f"Batch {size:g} alone, under {compiler}"
            else:
                factors = f"{other} and batch {size:g} together"
            sentences.append(f"{factors}: {change(contrast.verdict.ratio.estimate)} {noun(contrast.verdict)}.")
        return sentences

    def table(self) -> Table:
        """Return the table, with compilers as rows and batch sizes as columns."""
        labels = ("compiler", *(f"batch {size:g}" for size in self.batch_sizes))
        rows = []
        for compiler in self.compilers:
            texts = [(compiler, ""), *(self.texts(compiler, size) for size in self.batch_sizes)]
            rows.append(Row(tuple(Cell(text=text, detail=detail) for text, detail in texts)))
        return Table(
            name="Compiler and batch size separately",
            headings=tuple(Heading(label=label, head=label) for label in labels),
            rows=tuple(rows),
            is_sortable=False,
        )


def factorial_of(comparison: Comparison) -> Factorial | None:
    """Return the factorial; None with fewer than three pairs, or if two arms share a compiler and batch size."""
    arms = {factors: arm for arm in comparison.arms if (factors := _factors(arm))}
    compilers = tuple(dict.fromkeys(compiler for compiler, _ in arms))
    batch_sizes = tuple(dict.fromkeys(size for _, size in arms))
    if len(arms) < max(3, len(comparison.arms)) or min(len(compilers), len(batch_sizes)) < 2:
        return None
    contrasts = {factors: each for each in comparison.contrasts if (factors := _factors(each.arm))}
    costs = {factors: cost for factors, arm in arms.items() if (cost := comparison.cost(arm, BILLABLE)) is not None}
    return Factorial(compilers=compilers, batch_sizes=batch_sizes, arms=arms, contrasts=contrasts, costs=costs)


def _factors(arm: Arm) -> tuple[str, float] | None:
    """Return an arm's compiler and batch size; None if its jobs differ in either."""
    compilers = {job.text.get("compiler") for job in arm.jobs}
    sizes = arm.setting("hp_batch_size")
    compiler = next(iter(compilers))
    return (compiler, sizes[0]) if len(compilers) == len(sizes) == 1 and compiler else None
