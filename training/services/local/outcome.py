"""Failure reason and final metrics of a job that has ended. Pure; standard library only, except for metrics."""

from __future__ import annotations

import contextlib
import math
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from training.services.local.job_record import MAX_REASON_CHARACTERS
from training.services.local.processes import Outcome

TRACEBACK = "Traceback (most recent call last):"
EXIT_CODE_OF_SIGKILL = 137
ELLIPSIS = "\n[...]\n"


def failure_reason(outcome: Outcome, failure_text: str, log_tail: Sequence[str], disk: str = "") -> str:
    """Return the reason in the form that SageMaker and its toolkit use.

    `failure_text` is the content of `output/failure`; it is empty if the script did not write the file. `disk` is the
    sentence about a full disk, if it is full.
    """
    message = failure_text.strip() or _last_traceback(log_tail)
    signal_number = _killed_by(outcome.exit_code, log_tail)
    extra = _signal_text(signal_number, outcome.out_of_memory) if signal_number else disk
    head = f"AlgorithmError: ExecuteUserScriptError:\nExitCode {outcome.exit_code}\n"
    if extra:
        head += f'ExtraInfo "{extra}"\n'
    return head + f'ErrorMessage "{shortened(message, MAX_REASON_CHARACTERS - len(head) - len("ErrorMessage ") - 2)}"'


def shortened(text: str, limit_characters: int) -> str:
    """Shorten text in the middle. A quarter of the limit is the start; the rest is the end, which has the error."""
    if len(text) <= limit_characters:
        return text
    beginning = limit_characters // 4
    return text[:beginning] + ELLIPSIS + text[len(text) - (limit_characters - beginning - len(ELLIPSIS)) :]


def _last_traceback(log_tail: Sequence[str]) -> str:
    """Return the last traceback in the log, or the log's last line if there is no traceback."""
    starts = [index for index, line in enumerate(log_tail) if TRACEBACK in line]
    lines = log_tail[starts[-1] :] if starts else log_tail[-1:]
    return "\n".join(lines)


def _killed_by(exit_code: int, log_tail: Sequence[str]) -> int:
    """Return the number of the signal that killed the script, or 0.

    torchrun itself exits with 1 and logs a signal as a negative `exitcode`. The last heading contains the process that
    failed first; torchrun stopped the others.
    """
    if exit_code == EXIT_CODE_OF_SIGKILL:
        return int(signal.SIGKILL)
    if exit_code < 0:
        return -exit_code
    root_cause = "\n".join(log_tail).rpartition("Root Cause (first observed failure)")[2]
    reported = re.findall(r"^\s*exitcode\s*:\s*-(\d+)", root_cause, flags=re.MULTILINE)
    return int(reported[0]) if reported else 0


def _signal_text(number: int, out_of_memory: bool) -> str:
    name = f"signal {number}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(number).name
    killed = f"Killed by {name}"
    return f"OutOfMemory: {killed}" if out_of_memory and number == signal.SIGKILL else killed


def final_metrics(definitions: Sequence[Mapping[str, str]], lines: Iterable[str], time: float) -> list[dict[str, Any]]:
    """Return the last value of each metric in the log, all at `time`, in seconds since the epoch."""
    if not definitions:
        return []
    from training.contract.metric_expressions import MetricExpressions  # needs a package, which most jobs can spare

    expressions = MetricExpressions({each["Name"]: each["Regex"] for each in definitions})
    values: dict[str, float] = {}
    for line in lines:
        values |= {name: value for name, value in expressions.matches(line) if math.isfinite(value)}
    return [{"MetricName": name, "Value": value, "Timestamp": time} for name, value in values.items()]
