"""Collect the errors with which a command would end, so that a plan lists all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from experiments.planning.command_plan import Refusal
from experiments.running.output import sentence
from training.contract.errors import TrainfareError, messages_of

Result = TypeVar("Result")


class Refusals:
    """Errors so far, without duplicates, in the order in which the command would meet them."""

    def __init__(self) -> None:
        self._listed: dict[str, Refusal] = {}

    @property
    def listed(self) -> tuple[Refusal, ...]:
        """The errors."""
        return tuple(self._listed.values())

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step, or None if it raises an error of a user, which is added."""
        try:
            return step()
        except TrainfareError as error:
            for message in messages_of(error):
                self._listed.setdefault(message, Refusal(message=message, exit_code=error.exit_code))
        except Exception as error:
            if (text := sentence(error)) is None:
                raise
            self._listed.setdefault(text, Refusal(message=text, exit_code=1))
        return None
