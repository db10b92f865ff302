"""What waits for the model: all that arrives while it works is run together, with no wait where it is idle.

A short batch is run on the event loop's own thread: handing it to another one and back costs two wake-ups, which on a
busy machine take longer than the model does, and what arrives meanwhile waits in its sockets. A batch that would keep
the loop from others for longer goes to a thread.
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

MOST_WAITING = 2048
"""Examples that wait for the model; whoever comes then is told to come again."""
MOST_TAKEN = 128
"""Examples taken at once: a bound on what those that come meanwhile wait for."""
MOST_LOOP_SECONDS = 0.05
"""Longest that the event loop may be kept, by the time that the last batch took for each of its tokens."""


class Encoded(Protocol):
    """An example ready for the model."""

    @property
    def length(self) -> int:
        """Tokens of its longest row."""

    @property
    def cost(self) -> int:
        """Tokens that the model works on."""

    @property
    def new_tokens(self) -> int:
        """Of a text that goes on: at most so many follow. 0 of what needs one run of the model."""


class _Work:
    """The examples of one request, and what is known of their answers."""

    def __init__(self, count: int, done: asyncio.Future[list[Any]]) -> None:
        self.done = done
        self.answers: list[Any] = [None] * count
        self.missing = count
        self.error: BaseException | None = None


_Waiting = tuple[_Work, int, Encoded]
"""A request's work, the place of an example in it, and the example."""


def _failed(taken: Sequence[_Waiting], error: BaseException) -> list[_Work]:
    """Return the requests of what was taken, each with the error that it is to be told."""
    found = list(dict.fromkeys(work for work, _, _ in taken))
    for work in found:
        work.error = work.error or error
    return found


class Batcher:
    """Runs examples of many requests through `run`, one batch at a time. To be used from one event loop."""

    def __init__(self, run: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self._run = run
        self._waiting: deque[_Waiting] = deque()
        self._is_working = False
        self._seconds_per_token = math.inf  # the first goes to the thread

    async def answers(self, examples: Sequence[Encoded]) -> list[Any]:
        """Return the answers, in order. Raises `Refused` (503) where too much waits, (500) where the model fails."""
        if not examples:
            return []
        if len(self._waiting) + len(examples) > MOST_WAITING:
            raise busy(f"{len(self._waiting)} inputs wait for the model already: ask again in a second.")
        loop = asyncio.get_running_loop()
        work = _Work(len(examples), loop.create_future())
        self._waiting.extend((work, place, example) for place, example in enumerate(examples))
        if not self._is_working:
            self._is_working = True
            # Behind the requests that this turn of the loop has read: they go together.
            loop.call_soon(self._work, loop)
        return await work.done

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what waits: here where that is short, else in the thread, which calls again."""
        taken = [self._waiting.popleft() for _ in range(min(MOST_TAKEN, len(self._waiting)))]
        if self._is_short([example for _, _, example in taken]):
            self._tell(loop, self._run_all(taken))
            return
        try:
            self._run_in_thread(loop, taken)
        except RuntimeError as error:  # the system has no thread left
            self._tell(loop, _failed(taken, error))

    def _is_short(self, examples: Sequence[Encoded]) -> bool:
        """Tell whether the loop may be kept for them; never where texts go on, of which a token takes a whole run."""
        if any(each.new_tokens for each in examples):
            return False
        return sum(each.cost for each in examples) * self._seconds_per_token <= MOST_LOOP_SECONDS

    def _run_in_thread(self, loop: asyncio.AbstractEventLoop, taken: Sequence[_Waiting]) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        running = loop.run_in_executor(thread, self._run_all, taken)
        running.add_done_callback(lambda done: self._tell(loop, done.result()))
        # A thread that has run a model keeps the cores' workers for itself until it ends; while two threads have
        # some, OpenMP puts them to sleep between any two products, and the loop's batches take half as long again.
        thread.shutdown(wait=False)

    def _tell(self, loop: asyncio.AbstractEventLoop, done: list[_Work]) -> None:
        for work in done:
            if work.done.done():  # whoever asked has gone
                continue
            if work.error:
                said = f"the model failed on this input: {type(work.error).__name__}: {work.error}"
                work.done.set_exception(Refused(500, said))
            else:
                work.done.set_result(work.answers)
        self._is_working = bool(self._waiting)
        if self._waiting:
            loop.call_soon(self._work, loop)

    def _run_all(self, taken: Sequence[_Waiting]) -> list[_Work]:
        """Return the requests that are answered now. Raises nothing: whoever waits is told whatever happens."""
        done: list[_Work] = []
        try:
            for batch in batches([example.length for _, _, example in taken]):
                began = time.perf_counter()
                done += self._answer([taken[position] for position in batch])
                tokens = sum(taken[position][2].cost for position in batch)
                self._seconds_per_token = (time.perf_counter() - began) / max(1, tokens)
        except BaseException as error:  # a panic of the tokenizers' Rust is no `Exception`
            traceback.print_exc(file=sys.stderr)
            return done + _failed([each for each in taken if each[0] not in done], error)
        return done

    def _answer(self, batch: list[_Waiting]) -> list[_Work]:
        """Run a batch; where that fails, each example alone, so that the fault stays with the request it is of."""
        try:
            found = list(self._run([example for _, _, example in batch]))
        except Exception as error:
            if len(batch) > 1:
                return [work for one in batch for work in self._answer([one])]
            traceback.print_exc(file=sys.stderr)
            batch[0][0].error, found = error, [None]
        done: list[_Work] = []
        for (work, place, _), answer in zip(batch, found, strict=True):
            work.answers[place] = answer
            work.missing -= 1
            if not work.missing:
                done.append(work)
        return done
