"""Content of one part of a log line, and the protocol of the formats. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")

Unit = Literal["update", "batch", "unknown"]
"""Kind of one step of a log: an update of the weights, a batch of the data loader, or not certain."""

_STANDARD_NAMES = {"lr": "learning_rate", "ppl": "perplexity"}
_EVALUATION_PREFIXES = ("validation_", "valid_", "val_")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Content of one part of a line."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers by metric name."""
    step: int | None = None
    """Step as the log counts it; None if the part has no step."""
    steps_done: int | None = None
    """Steps that have ended; None if `step` of them have."""
    epochs: int = 0
    """Epochs that have begun and may end with a partial batch; 0 if every batch is full."""
    is_evaluation: bool = False
    """True if an evaluation has run since the previous step."""
    is_due: bool = True
    """False for one of the many states of a bar that need no point in MLflow."""
    bar_seconds: int | None = None
    """Time that a progress bar displays for this step, in whole seconds; None for other lines."""
    bar: int = 0
    """Number of the progress bar. Times of two bars cannot be compared."""

    @property
    def done(self) -> int:
        """Steps that have ended."""
        return (self.step or 0) if self.steps_done is None else self.steps_done


class Format(Protocol):
    """Reader of one framework's lines. It is passed every part of a log, in order."""

    @property
    def unit(self) -> Unit:
        """Kind of one step."""

    @property
    def logged_batch_size(self) -> int | None:
        """Samples of one step according to the log. None if it does not show them, 0 if they cannot be known."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a part, or None for a part in another format."""


def plain(part: str) -> str:
    """Return a part without terminal escapes and backspaces."""
    return _ESCAPE.sub("", part)


def standard_name(name: str) -> str:
    """Return the name under which our own jobs log a metric: `val_loss` is `eval_loss`."""
    for prefix in _EVALUATION_PREFIXES:
        if name.startswith(prefix):
            return f"eval_{_STANDARD_NAMES.get(name[len(prefix) :], name[len(prefix) :])}"
    return _STANDARD_NAMES.get(name, name)


def integer(text: str) -> int:
    """Return a whole number, which may have separators: `498,678`."""
    return int(text.replace(",", ""))
