"""The looks of a comparison as a tag of its group's run: reports judge the group by the looks that it ran under."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from judging.design import Design

DESIGN = "platform.design"
_DESIGN = TypeAdapter(Design)


def write_design(design: Design) -> str:
    """Return a design as the tag's text."""
    return _DESIGN.dump_json(design).decode()


def read_design(tags: Mapping[str, str]) -> Design | None:
    """Return the design in a run's tags; None for a group that ran all its repeats, or if the tag is damaged."""
    try:
        return _DESIGN.validate_json(tags[DESIGN]) if DESIGN in tags else None
    except ValidationError:
        return None
