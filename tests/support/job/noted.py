"""Events of a job, kept for a test."""

from __future__ import annotations

from typing import Any

from reporting.events import Events


class Noted(Events):
    """Events that keep their messages."""

    def __init__(self) -> None:
        super().__init__(enabled=False)
        self.messages: list[str] = []

    def emit(self, kind: str, **fields: Any) -> None:
        self.messages.append(fields["message"])
