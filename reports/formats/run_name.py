"""A report's answer in the name of its MLflow run, such as `inductor 20 % cheaper (compare demo)`."""

from __future__ import annotations

from reports.model.report import Report
from reports.model.wording import short

MAX_CHARACTERS = 70
"""Length of a run name."""
_MIN_SETTING_CHARACTERS = 12
"""Number of characters kept of a setting, however long the rest is."""


def name_with_answer(name: str, report: Report) -> str:
    """Return a run's name with the report's short answer in front.

    The answer comes first because MLflow's table of runs shows about 20 characters. If the name is longer than
    `MAX_CHARACTERS`, only the setting in the answer is shortened.
    """
    setting, text = report.short_answer.setting, report.short_answer.text
    room = MAX_CHARACTERS - len(f"{text} ({name})")
    return f"{short(setting, max(room, _MIN_SETTING_CHARACTERS))}{text} ({name})"


def is_ours(name: str, current: str) -> bool:
    """Return True if a run still has its original `name`, with or without an answer; False if it was renamed."""
    return current == name or current.endswith(f" ({name})")
