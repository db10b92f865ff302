"""Examples that wait for the model, and the fair choice of the next ones. Pure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Encoded(Protocol):
    """A tokenized example."""

    @property
    def length(self) -> int:
        """Number of tokens in the request's longest row."""

    @property
    def cost(self) -> int:
        """Tokens that the model processes."""

    @property
    def new_tokens(self) -> int:
        """Most tokens to generate; 0 if the model runs once."""


class PendingRequest:
    """A request: its answers so far, and the number of missing ones. Only the event loop changes it."""

    def __init__(self, count: int, done: asyncio.Future[list[Any]]) -> None:
        self.done = done
        self.answers: list[Any] = [None] * count
        self.missing = count


Waiting = tuple[PendingRequest, int, Encoded]
"""A request, the position of an example in it, and the example."""


CALM_TURNS = 10
"""Turns without a completed request after which turns become longer: no short requests arrive, so nobody waits."""


@dataclass
class Lane:
    """Waiting examples of many requests."""

    max_examples: int
    """Most examples of one turn."""
    max_seconds: float
    """Longest estimated time of a turn's first round, unless it has only one example."""
    fill_seconds: float
    """Estimated time up to which further rounds fill a turn; `max_seconds` after `CALM_TURNS`."""
    is_running: bool = False
    """True while a turn is running or about to start."""
    _turns: int = 0
    """Turns since a request was completed."""
    _requests: deque[deque[Waiting]] = field(default_factory=deque)

    def add(self, examples: Sequence[Waiting]) -> None:
        """Add the examples of a request behind those of the others."""
        if examples:
            self._requests.append(deque(examples))

    def __len__(self) -> int:
        return sum(map(len, self._requests))

    def take(self, seconds_of: Callable[[Encoded], float]) -> list[Waiting]:
        """Remove and return the examples of the next turn, in rounds of one example of each request.

        The turn ends with the round that completes a request. So a request with one text waits for the running turn and
        for a short one, however many texts others have sent. Requests that have failed or were cancelled are dropped.
        """
        self._requests = deque(request for request in self._requests if not request[0][0].done.done())
        taken: list[Waiting] = []
        self._turns += 1
        fill_seconds = self.fill_seconds if self._turns <= CALM_TURNS else self.max_seconds
        seconds, limit, before = 0.0, self.max_seconds, len(self._requests)
        while self._requests and len(self._requests) == before:
            for _ in range(before):
                request = self._requests[0]
                seconds += seconds_of(request[0][2])
                if len(taken) == self.max_examples or (taken and seconds > limit):
                    return taken
                taken.append(request.popleft())
                self._requests.popleft()
                if request:
                    self._requests.append(request)
                else:
                    self._turns = 0
            limit = fill_seconds
        return taken
