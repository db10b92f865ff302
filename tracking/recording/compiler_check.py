"""Whether SageMaker Training Compiler was at work: what its image says in the log against what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

ACTIVE_LINES = ("Found configuration for Training Compiler", "Configuring SM Training Compiler")
"""What the image prints when the compiler is on (AWS's FAQ of it)."""


def was_active(compiler: str, lines: Iterable[str]) -> bool | None:
    """Return whether a job's log shows the compiler at work; None for jobs that its image does not run."""
    if compiler not in {"trcomp", "trcomp-off"}:
        return None
    return any(phrase in line for line in lines for phrase in ACTIVE_LINES)


def doubt(compiler: str, active: bool | None) -> str | None:
    """Return why the figures of a job are not what its compiler setting says, or None."""
    if compiler == "trcomp" and active is False:
        return "its log does not show that SageMaker Training Compiler ran, so it counts as not compiled"
    if compiler == "trcomp-off" and active:
        return "its log shows SageMaker Training Compiler at work, which was to be off"
    return None
