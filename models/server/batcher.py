"""Run concurrent requests together. An idle model starts immediately; inputs that arrive meanwhile form the next turn.

Short examples run in the event loop's own thread. Handing them to a different thread and back costs two wake-ups, which
on a busy machine take longer than the model. Examples that would block the loop for longer have a lane of their own,
whose turns run in a thread, so that short ones need not wait for them.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from models.server.batches import MAX_EXAMPLES, batches
from models.server.errors import Refused, busy
from models.server.lanes import Encoded, Lane, PendingRequest, Waiting

MAX_WAITING = 4096
"""Most examples that may wait for the model. A request may take at most half of the free room, so that requests with
many examples never lock out those with one; others are refused with 503."""
MAX_LOOP_SECONDS = 0.05
"""Longest estimated time that an example, or the first round of a turn, may block the event loop. The estimate uses the
time per token of the last batches."""
SHORT_TURN_SECONDS = 0.01
"""Estimated time up to which further rounds fill a turn of short examples. A new request waits for one turn."""
MAX_SLOWDOWN = 1.5
"""Most by which the estimate grows after a batch, so that one disturbed batch does not make short examples long."""
MAX_SHORT_AT_ONCE = 128
"""Most short examples of a turn."""
LONG_TURN_SECONDS = 0.1
"""Longest estimated time of a turn of several long examples. Generated tokens do not count: the examples of a batch
generate theirs at the same time."""


@dataclass(frozen=True)
class _Failure:
    """Error in place of an answer."""

    error: BaseException


_Outcome = tuple[Waiting, Any]
"""An example, and its answer or `_Failure`."""


class Batcher:
    """Runs examples of many requests with `run`. All calls must come from one event loop.

    `run` is called by at most two threads at the same time: by the loop's, and by one for long examples.
    """

    def __init__(self, run: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self._run = run
        self._short = Lane(MAX_SHORT_AT_ONCE, MAX_LOOP_SECONDS, SHORT_TURN_SECONDS)
        self._long = Lane(MAX_EXAMPLES, LONG_TURN_SECONDS, LONG_TURN_SECONDS)
        self._seconds_per_token = math.inf  # the first batch runs in a thread

    async def answers(self, examples: Sequence[Encoded]) -> list[Any]:
        """Return the answers, in order. Raises `Refused`: 503 if too many examples wait, 500 if the model fails."""
        if not examples:
            return []
        waiting = len(self._short) + len(self._long)
        if 2 * len(examples) > MAX_WAITING - waiting and waiting:
            raise busy(f"{waiting} inputs are already waiting for the model: retry in a second.")
        loop = asyncio.get_running_loop()
        work = PendingRequest(len(examples), loop.create_future())
        placed = [(work, place, example) for place, example in enumerate(examples)]
        is_short = [self._is_short(example) for example in examples]
        for lane, belongs in ((self._short, True), (self._long, False)):
            lane.add([each for each, short in zip(placed, is_short, strict=True) if short is belongs])
            self._start(loop, lane)
        return await work.done

    def _start(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> None:
        """Run the lane's next turn after the loop has handled all requests that have arrived: they run together."""
        if not lane.is_running and len(lane):
            lane.is_running = True
            loop.call_soon(self._run_next, loop, lane)

    def _run_next(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> None:
        taken = lane.take(self._seconds)
        if lane is self._short:
            self._resolve(loop, lane, self._run_all(taken))
            return
        try:
            self._run_in_thread(loop, taken)
        except RuntimeError as error:  # the system has no thread left
            self._resolve(loop, lane, [(each, _Failure(error)) for each in taken])

    def _is_short(self, example: Encoded) -> bool:
        """Return whether an example may block the loop. Generation may not: each new token is a run of the model."""
        return not example.new_tokens and self._seconds(example) <= MAX_LOOP_SECONDS

    def _seconds(self, example: Encoded) -> float:
        """Return the estimated time of an example, without that of generated tokens."""
        return 0.0 if example.new_tokens else example.cost * self._seconds_per_token

    def _run_in_thread(self, loop: asyncio.AbstractEventLoop, taken: Sequence[Waiting]) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        running = loop.run_in_executor(thread, self._run_all, taken)
        running.add_done_callback(lambda done: self._resolve(loop, self._long, done.result()))
        # A thread that has run a model keeps its OpenMP workers until it ends. While two threads have workers, OpenMP
        # puts them to sleep between any two matrix products, and batches in the loop take 50 % longer.
        thread.shutdown(wait=False)

    def _resolve(self, loop: asyncio.AbstractEventLoop, lane: Lane, outcomes: Sequence[_Outcome]) -> None:
        for (work, place, _), answer in outcomes:
            if work.done.done():  # the client has disconnected, or another example has failed
                continue
            if isinstance(answer, _Failure):
                message = f"the model failed on this input: {type(answer.error).__name__}: {answer.error}"
                work.done.set_exception(Refused(500, message))
                continue
            work.answers[place] = answer
            work.missing -= 1
            if not work.missing:
                work.done.set_result(work.answers)
        # Two passes of the loop: the first reads the requests that have arrived meanwhile, and the second adds them.
        loop.call_soon(loop.call_soon, self._continue, loop, lane)

    def _continue(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> None:
        lane.is_running = False
        self._start(loop, lane)

    def _run_all(self, taken: Sequence[Waiting]) -> list[_Outcome]:
        """Run the examples of a turn, in batches of similar length. Never raises."""
        outcomes: list[_Outcome] = []
        try:
            for positions in batches([example.length for _, _, example in taken]):
                batch = [taken[position] for position in positions]
                began = time.perf_counter()
                outcomes += zip(batch, self._answers([example for _, _, example in batch]), strict=True)
                tokens = sum(example.cost for _, _, example in batch)
                seconds_per_token = (time.perf_counter() - began) / max(1, tokens)
                self._seconds_per_token = min(seconds_per_token, MAX_SLOWDOWN * self._seconds_per_token)
        except BaseException as error:  # a panic in the Rust code of tokenizers is not an `Exception`
            traceback.print_exc(file=sys.stderr)
            answered = {id(each) for each, _ in outcomes}
            outcomes += [(each, _Failure(error)) for each in taken if id(each) not in answered]
        return outcomes

    def _answers(self, examples: Sequence[Encoded]) -> list[Any]:
        """Run a batch. If it fails, each example runs alone, so that only the faulty request fails."""
        try:
            return list(self._run(examples))
        except Exception as error:
            if len(examples) > 1:
                return [answer for each in examples for answer in self._answers([each])]
            traceback.print_exc(file=sys.stderr)
            return [_Failure(error)]
