"""A report's answer in the name of its MLflow run, such as `inductor 20 % cheaper (compare demo)`."""

from __future__ import annotations

from reports.model.report import Report
from reports.model.wording import short

LONGEST = 70
"""Characters of a name."""
_FEWEST = 12
"""Characters kept of a setting, however long the rest is."""


def name_with_answer(name: str, report: Report) -> str:
    """Return a run's name with the answer before it.

    The answer comes first because MLflow's table of runs shows about 20 characters. If the name is longer than
    `LONGEST`, the setting is cut, never the rest of the answer.
    """
    setting, text = report.short_answer.setting, report.short_answer.text
    room = LONGEST - len(f"{text} ({name})")
    return f"{short(setting, max(room, _FEWEST))}{text} ({name})"


def is_ours(name: str, current: str) -> bool:
    """Return True if a run's current name is the original `name`, with or without an answer, and not a user's own."""
    return current == name or current.endswith(f" ({name})")
