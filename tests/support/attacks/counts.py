"""Outcomes of the attempts of one kind of attack."""

from __future__ import annotations

from dataclasses import dataclass, field

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
