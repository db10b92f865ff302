"""Base of all errors, and the errors of input. `training/contract/errors.py` shows the whole tree."""

from __future__ import annotations

from collections.abc import Sequence


class TrainfareError(Exception):
    """Base of all errors. The message is one sentence that a user can act on."""

    exit_code = 1


class InputError(TrainfareError):
    """The experiment, the data or the command line is wrong. The message states the field or file, value and rule."""

    exit_code = 2


class InputErrors(InputError):
    """Several independent errors in one input. `messages` are all of them; the message of the error is the first."""

    def __init__(self, messages: Sequence[str]):
        super().__init__(messages[0])
        self.messages = tuple(messages)
