"""What befalls an account's jobs, as a test wants it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Troubles:
    """Of all jobs, from the moment on that a field is set."""

    no_capacity: set[str] = field(default_factory=set)
    """Machine types that are not to be had."""
    hanging: set[str] = field(default_factory=set)
    """Ends of names of jobs whose processes stand still: no output, deaf to SIGTERM."""
    taken_back_at: list[str] = field(default_factory=list)
    """Spot machines are taken back, one for each entry, as the file of this name (a pattern) goes to S3: half of it
    arrives, and the processes are killed with the machine."""
    warned_at: list[str] = field(default_factory=list)
    """Likewise, but after the file has arrived, and with SIGTERM and time enough: what is saved then arrives too."""
    grace_seconds: float = 120.0
    """From SIGTERM to SIGKILL."""
    lines_twice: bool = False
    """Every log line is stored twice, as by an agent that did not hear that the first try had arrived."""
    compiler_works: bool = True
    """Whether the Training Compiler of its images runs where a request switches it on, and says so."""
