"""Compiler and batch size apart: the two by two of a comparison that has both. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reports.comparison.arms import Arm
from reports.comparison.comparison import Comparison, Contrast
from reports.comparison.equal_work import PAID
from reports.comparison.messages import NONE, change, change_interval, figure, noun


@dataclass(frozen=True, kw_only=True)
class Square:
    """Arms by compiler and batch size; not every pair need be there."""

    compilers: tuple[str, ...]
    """The baseline's first."""
    batch_sizes: tuple[float, ...]
    """Of each device, samples, the baseline's first."""
    arms: Mapping[tuple[str, float], Arm]
    contrasts: Mapping[tuple[str, float], Contrast]
    """Of the arms beside the baseline."""

    def texts(self, compiler: str, batch_size: float) -> tuple[str, str]:
        """Return the change against the baseline with its interval, and the median paid below it."""
        arm, contrast = self.arms.get((compiler, batch_size)), self.contrasts.get((compiler, batch_size))
        paid = arm.summary(PAID) if arm else None
        below = f"{figure(paid.median)} s" if paid else ""
        if arm is None:
            return NONE, ""
        if contrast is None:
            return "baseline", below
        ratio = contrast.verdict.ratio
        return (f"{change(ratio.estimate)} ({change_interval(ratio)})" if ratio else contrast.verdict.outcome), below

    def sentences(self) -> list[str]:
        """Return what the compiler and the batch size do alone, and what both do together."""
        compiler, batch_size = self.compilers[0], self.batch_sizes[0]
        told = []
        for (other, size), contrast in self.contrasts.items():
            if contrast.verdict.ratio is None:
                continue
            if size == batch_size:
                who = f"{other} alone, at batch {batch_size:g}"
            elif other == compiler:
                who = f"Batch {size:g} alone, under {compiler}"
            else:
                who = f"{other} and batch {size:g} together"
            told.append(f"{who}: {change(contrast.verdict.ratio.estimate)} {noun(contrast.verdict)}.")
        return told


def square_of(comparison: Comparison) -> Square | None:
    """Return the two by two; None unless each arm has a compiler and a batch size of its own and three pairs exist."""
    arms = {place: arm for arm in comparison.arms if (place := _place(arm))}
    compilers = tuple(dict.fromkeys(compiler for compiler, _ in arms))
    batch_sizes = tuple(dict.fromkeys(size for _, size in arms))
    if len(arms) < max(3, len(comparison.arms)) or min(len(compilers), len(batch_sizes)) < 2:
        return None
    contrasts = {place: contrast for contrast in comparison.contrasts if (place := _place(contrast.arm))}
    return Square(compilers=compilers, batch_sizes=batch_sizes, arms=arms, contrasts=contrasts)


def _place(arm: Arm) -> tuple[str, float] | None:
    compilers = {job.text.get("compiler") for job in arm.jobs}
    sizes = arm.setting("hp_batch_size")
    compiler = next(iter(compilers))
    return (compiler, sizes[0]) if len(compilers) == len(sizes) == 1 and compiler else None
