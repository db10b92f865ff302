"""Check by the log that SageMaker Training Compiler ran if, and only if, it was requested. Pure."""

from __future__ import annotations

from collections.abc import Iterable

ACTIVE_LINES = ("Found configuration for Training Compiler", "Configuring SM Training Compiler")
"""Lines that the image prints when the compiler is on. Source: AWS's FAQ of the compiler."""


def was_active(compiler: str, lines: Iterable[str]) -> bool | None:
    """Return whether a job's log shows that the compiler ran; None if the job does not use the compiler's image."""
    if compiler not in {"trcomp", "trcomp-off"}:
        return None
    return any(phrase in line for line in lines for phrase in ACTIVE_LINES)


def warning(compiler: str, active: bool | None) -> str | None:
    """Return the reason why a job's figures do not match its compiler setting, or None."""
    if compiler == "trcomp" and active is False:
        return "its log does not show that SageMaker Training Compiler ran, so it counts as not compiled"
    if compiler == "trcomp-off" and active:
        return "its log shows that SageMaker Training Compiler ran, although it was turned off"
    return None
