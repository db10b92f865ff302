"""Faults of an account's jobs that a test can enable."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class JobFaults:
    """Faults of all jobs. A fault takes effect when its field is set."""

    no_capacity: set[str] = field(default_factory=set)
    """Instance types without capacity."""
    hanging: set[str] = field(default_factory=set)
    """Suffixes of the names of jobs whose processes are suspended: no output, no reaction to SIGTERM."""
    interrupted_at: list[str] = field(default_factory=list)
    """Patterns of file names, one for each spot interruption. When the file is uploaded to S3, only half of it
    is stored, and the processes are killed."""
    warned_at: list[str] = field(default_factory=list)
    """Patterns of file names, one for each spot interruption with a warning. After the file is uploaded, the processes
    get SIGTERM and enough time, and files that they save then are uploaded too."""
    grace_seconds: float = 120.0
    """Time between SIGTERM and SIGKILL."""
    billing_seconds: float = 0.0
    """Time from the end of a job until its description has the billed seconds."""
    lines_twice: bool = False
    """True if every log line is stored twice, like by an agent that retries after a lost response."""
    compiler_works: bool = True
    """True if the Training Compiler runs, and logs that it runs, when a request enables it."""
