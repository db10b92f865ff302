"""Exit code of a comparison with a result that `--fail-on` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.running.output import print_error
from reports.comparison.report import FAIL_ON, fail_sentences
from training.contract.errors import InputError, nearest

if TYPE_CHECKING:
    from reports.model.report import Report

UNWANTED_RESULT = 3
"""Exit code if a result occurred that `--fail-on` names."""


def read_fail_on(text: str) -> frozenset[str]:
    """Return the results named in the option, which commas separate. Raises `InputError`."""
    names = [name for part in text.split(",") if (name := part.strip())]
    for name in names:
        if name not in FAIL_ON:
            raise InputError(
                f"--fail-on contains '{name}': it may contain {', '.join(FAIL_ON)}.{nearest(name, FAIL_ON)}"
            )
    return frozenset(names)


def exit_code(report: Report, fail_on: frozenset[str]) -> int:
    """Print the results that occurred and that `fail_on` names to standard error. Return 3 if there are any, else 0."""
    sentences = list(fail_sentences(report.results, fail_on))
    for sentence in sentences:
        print_error(sentence)
    return UNWANTED_RESULT if sentences else 0
