"""Outcomes of the attempts of one kind of attack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.support.results import Row

TRACEBACK = "Traceback (most recent call last)"


@dataclass
class Counts:
    """Outcomes of the attempts of one attack. All counts but `tried` and `survived` should be zero."""

    attack: str
    """Name of the attack, such as `kill at first use`."""
    tried: int = 0
    survived: int = 0
    """Attempts after which everything was as it should be."""
    lost: int = 0
    """Attempts after which a result, a run or an answer was missing."""
    doubled: int = 0
    """Attempts after which a job, a run or a point existed twice."""
    tracebacks: int = 0
    """Attempts in which a program printed a traceback."""
    faults: list[str] = field(default_factory=list)
    """A sentence for each attempt that was not survived."""

    def add(self, name: str, *, lost: bool = False, doubled: bool = False, output: str = "", fault: str = "") -> None:
        """Count one attempt. `output` is what the programs printed; `fault` describes any other failure."""
        traceback = TRACEBACK in output
        self.tried += 1
        self.lost += lost
        self.doubled += doubled
        self.tracebacks += traceback
        problems = {"lost": lost, "doubled": doubled, "traceback": traceback, fault: bool(fault)}
        if wrong := [problem for problem, is_so in problems.items() if is_so]:
            self.faults.append(f"{self.attack}, {name}: {', '.join(wrong)}")
        else:
            self.survived += 1

    def rows(self) -> Iterable[Row]:
        """Yield the rows of the result file."""
        yield Row(name=f"{self.attack}: tried", value=self.tried, unit="attempts")
        all_survived = self.survived == self.tried
        yield Row(name=f"{self.attack}: survived", value=self.survived, unit="attempts", target="all", met=all_survived)
        for name in ("lost", "doubled", "tracebacks"):
            count = getattr(self, name)
            yield Row(name=f"{self.attack}: {name}", value=count, unit="attempts", target="none", met=count == 0)


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one file of attacks."""

    counts: Sequence[Counts]
    rows: Sequence[Row] = ()
    """Further figures, such as the largest memory."""
    note: str
    """Description of the attacks, for readers of the figures."""

    def all_rows(self) -> list[Row]:
        """Return the rows of the counts, then the further rows."""
        return [*(row for counts in self.counts for row in counts.rows()), *self.rows]
