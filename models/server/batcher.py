"""Run concurrent requests together. An idle model starts immediately; inputs that arrive meanwhile form the next batch.

A short batch runs in the event loop's own thread. Handing it to a different thread and back costs two wake-ups, which
on a busy machine take longer than the model. A batch that would block the loop for longer runs in a thread.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from models.server.batches import batches
from models.server.errors import Refused, busy

MAX_WAITING = 2048
"""Most examples that may wait for the model; further requests are refused with 503."""
MAX_AT_ONCE = 128
"""Most examples that run before waiting examples are looked at again; limits how long those wait."""
MAX_LOOP_SECONDS = 0.05
"""Longest estimated time that a batch may block the event loop. The estimate uses the last batch's time per token."""


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


class _PendingRequest:
    """A request: its answers so far, and the number of missing ones."""

    def __init__(self, count: int, done: asyncio.Future[list[Any]]) -> None:
        self.done = done
        self.answers: list[Any] = [None] * count
        self.missing = count
        self.error: BaseException | None = None


_Waiting = tuple[_PendingRequest, int, Encoded]
"""A request, the position of an example in it, and the example."""


def _failed(taken: Sequence[_Waiting], error: BaseException) -> list[_PendingRequest]:
    """Set the error of the requests that these examples belong to, and return the requests."""
    requests = list(dict.fromkeys(work for work, _, _ in taken))
    for work in requests:
        work.error = work.error or error
    return requests


class Batcher:
    """Runs examples of many requests with `run`, one batch at a time. All calls must come from one event loop."""

    def __init__(self, run: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self._run = run
        self._waiting: deque[_Waiting] = deque()
        self._is_working = False
        self._seconds_per_token = math.inf  # the first batch runs in a thread

    async def answers(self, examples: Sequence[Encoded]) -> list[Any]:
        """Return the answers, in order. Raises `Refused`: 503 if too many examples wait, 500 if the model fails."""
        if not examples:
            return []
        if len(self._waiting) + len(examples) > MAX_WAITING:
            raise busy(f"{len(self._waiting)} inputs are already waiting for the model: retry in a second.")
        loop = asyncio.get_running_loop()
        work = _PendingRequest(len(examples), loop.create_future())
        self._waiting.extend((work, place, example) for place, example in enumerate(examples))
        if not self._is_working:
            self._is_working = True
            # Run after the loop has handled all requests that have arrived, so that they run together.
            loop.call_soon(self._run_next, loop)
        return await work.done

    def _run_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the next waiting examples: here if that is quick, otherwise in a thread."""
        taken = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]
        if self._is_short([example for _, _, example in taken]):
            self._resolve(loop, self._run_all(taken))
            return
        try:
            self._run_in_thread(loop, taken)
        except RuntimeError as error:  # the system has no thread left
            self._resolve(loop, _failed(taken, error))

    def _is_short(self, examples: Sequence[Encoded]) -> bool:
        """Return whether the examples may block the loop. Generation may not: each new token is a run of the model."""
        if any(each.new_tokens for each in examples):
            return False
        return sum(each.cost for each in examples) * self._seconds_per_token <= MAX_LOOP_SECONDS

    def _run_in_thread(self, loop: asyncio.AbstractEventLoop, taken: Sequence[_Waiting]) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        running = loop.run_in_executor(thread, self._run_all, taken)
        running.add_done_callback(lambda done: self._resolve(loop, done.result()))
        # A thread that has run a model keeps its OpenMP workers until it ends. While two threads have workers, OpenMP
        # puts them to sleep between any two matrix products, and batches in the loop take 50 % longer.
        thread.shutdown(wait=False)

    def _resolve(self, loop: asyncio.AbstractEventLoop, done: list[_PendingRequest]) -> None:
        for work in done:
            if work.done.done():  # the client has disconnected
                continue
            if work.error:
                message = f"the model failed on this input: {type(work.error).__name__}: {work.error}"
                work.done.set_exception(Refused(500, message))
            else:
                work.done.set_result(work.answers)
        self._is_working = bool(self._waiting)
        if self._waiting:
            loop.call_soon(self._run_next, loop)

    def _run_all(self, taken: Sequence[_Waiting]) -> list[_PendingRequest]:
        """Return the requests that are complete now. Errors are stored in the requests, never raised."""
        done: list[_PendingRequest] = []
        try:
            for batch in batches([example.length for _, _, example in taken]):
                began = time.perf_counter()
                done += self._answer([taken[position] for position in batch])
                tokens = sum(taken[position][2].cost for position in batch)
                self._seconds_per_token = (time.perf_counter() - began) / max(1, tokens)
        except BaseException as error:  # a panic in the Rust code of tokenizers is not an `Exception`
            traceback.print_exc(file=sys.stderr)
            return done + _failed([each for each in taken if each[0] not in done], error)
        return done

    def _answer(self, batch: list[_Waiting]) -> list[_PendingRequest]:
        """Run a batch and return the requests that it completes.

        If the batch fails, each example runs alone, so that only the faulty request fails.
        """
        try:
            answers = list(self._run([example for _, _, example in batch]))
        except Exception as error:
            if len(batch) > 1:
                return [work for one in batch for work in self._answer([one])]
            traceback.print_exc(file=sys.stderr)
            batch[0][0].error, answers = error, [None]
        done: list[_PendingRequest] = []
        for (work, place, _), answer in zip(batch, answers, strict=True):
            work.answers[place] = answer
            work.missing -= 1
            if not work.missing:
                done.append(work)
        return done
