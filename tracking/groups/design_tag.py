"""The looks of a comparison as a tag of its group's run: reports judge the group by the looks that it ran under."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from judging.design import RULES, Design
from training.contract.errors import InputError

DESIGN = "platform.design"
FIRST_WITH_LOOKS = 2
"""First version of the rules that has looks. Groups of version 1 have no tag."""
_DESIGN = TypeAdapter(Design)
_SHOWN_CHARACTERS = 80


def write_design(design: Design) -> str:
    """Return a design as the tag's text."""
    return _DESIGN.dump_json(design).decode()


def read_design(tags: Mapping[str, str]) -> Design | None:
    """Return the design in a run's tags; None for a group that ran all its repeats.

    Raises `InputError` for a damaged tag or unknown rules: other looks or rules could give another verdict.
    """
    if DESIGN not in tags:
        return None
    try:
        design = _DESIGN.validate_json(tags[DESIGN])
    except ValidationError as error:
        raise _unreadable(tags, "it must be a JSON object as `trainfare compare` writes it") from error
    if not FIRST_WITH_LOOKS <= design.rules <= RULES:
        known = f"versions {FIRST_WITH_LOOKS} to {RULES}"
        raise _unreadable(tags, f"its rules have version {design.rules}, and this version of trainfare has {known}")
    if not design.looks or list(design.looks) != sorted({each for each in design.looks if each > 0}):
        raise _unreadable(tags, "its looks must be ascending numbers of repeats")
    return design


def _unreadable(tags: Mapping[str, str], rule: str) -> InputError:
    group, text = tags.get("platform.group", "unknown"), tags[DESIGN]
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return InputError(
        f"tag {DESIGN} of group '{group}' is '{shown}': {rule}. Restore the tag in MLflow; the artifact plan.json of a "
        "comparison's run holds its value as `design`."
    )
