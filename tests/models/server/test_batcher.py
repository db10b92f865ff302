"""Waiting requests run together, a failure affects only its request, and an overload is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from models.server.batcher import MAX_WAITING, Batcher
from models.server.errors import Refused


@dataclass(frozen=True)
class Word:
    """An example of a model that doubles words."""

    text: str
    new_tokens: int = 0
    rows: int = 1

    @property
    def length(self) -> int:
        return len(self.text)

    @property
    def cost(self) -> int:
        return self.rows * len(self.text) + self.new_tokens


class Doubling:
    """A model that waits until the test lets it continue, and cannot double `bad`."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, examples: Sequence[Word]) -> list[str]:
        self.batches.append([each.text for each in examples])
        self.has_begun.set()
        assert self.may_go_on.wait(30)
        if any(each.text == "bad" for each in examples):
            raise ArithmeticError("cannot double bad")
        return [2 * each.text for each in examples]


def test_requests_that_arrive_while_the_model_runs_run_together() -> None:
    model = Doubling()

    async def ask() -> list[list[str]]:
        batcher = Batcher(model)
        # By the time of these rows, the batcher expects the rest to be quick, also on a slow machine.
        first = asyncio.create_task(batcher.answers([Word("a", rows=10_000)]))
        await asyncio.to_thread(model.has_begun.wait)
        rest = [asyncio.create_task(batcher.answers([Word(text), Word("z")])) for text in ("b", "c", "d")]
        await asyncio.sleep(0)
        model.may_go_on.set()
        return await asyncio.gather(first, *rest)

    assert asyncio.run(ask()) == [["aa"], ["bb", "zz"], ["cc", "zz"], ["dd", "zz"]]
    assert [sorted(batch) for batch in model.batches] == [["a"], ["b", "c", "d", "z", "z", "z"]]


def test_an_error_goes_only_to_the_request_that_caused_it() -> None:
    model = Doubling()
    model.may_go_on.set()

    async def ask() -> list[list[str] | BaseException]:
        batcher = Batcher(model)
        requests = [batcher.answers([Word(text), Word("x")]) for text in ("a", "bad", "c")]
        return await asyncio.gather(*requests, return_exceptions=True)

    one, two, three = asyncio.run(ask())
    assert (one, three) == (["aa", "xx"], ["cc", "xx"])
    assert isinstance(two, Refused)
    assert two.status == 500
    assert str(two) == "the model failed on this input: ArithmeticError: cannot double bad"


def test_an_overload_is_refused_and_not_run() -> None:
    model = Doubling()

    async def ask() -> None:
        batcher = Batcher(model)
        first = asyncio.create_task(batcher.answers([Word("a")]))
        await asyncio.to_thread(model.has_begun.wait)
        waiting = asyncio.create_task(batcher.answers([Word("b")] * MAX_WAITING))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await batcher.answers([Word("c")])
        assert refused.value.status == 503
        assert (b"retry-after", b"1") in refused.value.headers
        model.may_go_on.set()
        assert await first == ["aa"]
        assert await waiting == ["bb"] * MAX_WAITING

    asyncio.run(ask())
    assert not any("c" in batch for batch in model.batches)


def test_a_request_takes_at_most_half_of_the_free_room() -> None:
    """After 1,500 of 4,096, 2,596 are free: 1,298 are accepted and 1,299 are refused. One always fits."""
    model = Doubling()

    async def ask() -> None:
        batcher = Batcher(model)
        tasks = [asyncio.create_task(batcher.answers([Word("a")]))]
        await asyncio.to_thread(model.has_begun.wait)
        tasks.append(asyncio.create_task(batcher.answers([Word("b")] * 1500)))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="1500 inputs are already waiting"):
            await batcher.answers([Word("c")] * 1299)
        tasks += [asyncio.create_task(batcher.answers([Word("d")] * count)) for count in (1298, 1)]
        model.may_go_on.set()
        assert [len(each) for each in await asyncio.gather(*tasks)] == [1, 1500, 1298, 1]

    assert MAX_WAITING == 4096
    asyncio.run(ask())


def test_short_examples_do_not_wait_for_long_ones() -> None:
    """The long example ends only after the short one is answered."""
    short_is_answered = threading.Event()

    def model(examples: Sequence[Word]) -> list[str]:
        if any(each.new_tokens for each in examples):
            assert short_is_answered.wait(30)
        return [each.text for each in examples]

    async def ask() -> list[str]:
        batcher = Batcher(model)
        # Before this, the batcher does not know that the model is fast. Many rows make it so on a slow machine, too.
        await batcher.answers([Word("a", rows=10_000)])
        mixed = asyncio.create_task(batcher.answers([Word("b", new_tokens=9), Word("c")]))
        await asyncio.sleep(0)
        assert await asyncio.wait_for(batcher.answers([Word("d")]), 30) == ["d"]
        short_is_answered.set()
        return await mixed

    assert asyncio.run(ask()) == ["b", "c"]


def test_a_disconnected_client_does_not_block_others() -> None:
    model = Doubling()

    async def ask() -> list[str]:
        batcher = Batcher(model)
        gone = asyncio.create_task(batcher.answers([Word("a")]))
        await asyncio.to_thread(model.has_begun.wait)
        gone.cancel()
        model.may_go_on.set()
        return await batcher.answers([Word("b")])

    assert asyncio.run(ask()) == ["bb"]


class Panic(BaseException):
    """Exception of Rust code in Python, which is not an `Exception`."""


def panicking(examples: Sequence[Word]) -> list[str]:
    """A model that panics on `bad`, drops the answer of `few` and fails on an empty text."""
    if any(each.text == "bad" for each in examples):
        raise Panic("out of range")
    if not all(each.text for each in examples):
        raise IndexError("no token")
    return [each.text for each in examples if each.text != "few"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "IndexError: no token"), ("bad", "Panic: out of range"), ("few", r"ValueError: zip\(\)")],
)
def test_every_failure_is_reported_and_the_next_request_answered(text: str, message: str) -> None:
    async def ask() -> list[str]:
        batcher = Batcher(panicking)
        for _ in range(2):  # in the thread, then perhaps on the loop
            with pytest.raises(Refused, match=message):
                await asyncio.wait_for(batcher.answers([Word(text)]), 30)
        return await asyncio.wait_for(batcher.answers([Word("a")]), 30)

    assert asyncio.run(ask()) == ["a"]


def test_long_batches_never_block_the_loop() -> None:
    """Even if the last batch was fast per token: continued texts, and many windows of equal length."""
    threads: dict[Word, bool] = {}

    def model(examples: Sequence[Word]) -> list[str]:
        threads.update(dict.fromkeys(examples, threading.current_thread() is not threading.main_thread()))
        return [each.text for each in examples]

    first, short = Word("a" * 10_000), Word("b")
    generated, windows = Word("c", new_tokens=2048), Word("d" * 300, rows=10**9)

    async def ask() -> None:
        batcher = Batcher(model)
        for word in (first, short, generated, first, windows):
            assert await batcher.answers([word]) == [word.text]

    asyncio.run(ask())
    assert threads == {first: False, short: False, generated: True, windows: True}
