"""Limits of bodies: values, digits, and bytes in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from models.server.bodies import ALWAYS_BYTES, Bodies
from models.server.errors import Refused
from models.server.request import MAX_DIGITS, MAX_VALUES, parse_body


@pytest.mark.parametrize(
    "text",
    [",[{" * MAX_VALUES, '\\"' * MAX_VALUES + "," * 99_999, "\\\\" * 9 + "," * 99_999, '\\\\\\",' * 40_000],
    ids=["plain", "quotes", "backslashes", "both"],
)
def test_brackets_and_commas_in_a_text_are_no_values(text: str) -> None:
    inputs, _ = parse_body(f'{{"inputs": "{text}"}}'.encode())
    assert inputs == text.replace('\\"', '"').replace("\\\\", "\\")


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": [' + b"[]," * MAX_VALUES + b"[]]}",
        b'{"inputs": ["\\\\",' + b"[]," * MAX_VALUES + b'"\\""]}',
        b',""' * 200_000,
        b'"' * 300_000 + b"," * 70_000,
    ],
    ids=["lists", "lists between texts", "texts", "quotes"],
)
def test_too_many_values_are_refused(body: bytes) -> None:
    with pytest.raises(Refused, match=f"^the body has too many values: at most {MAX_VALUES} objects, lists and"):
        parse_body(body)


def test_as_many_values_as_allowed_are_read() -> None:
    """65,536 = 2 objects + 1 comma between their members + 65,533 commas between the members of `parameters`."""
    members = ",".join(f'"{number}":"a,b"' for number in range(MAX_VALUES - 2))
    _, parameters = parse_body(f'{{"inputs": "a", "parameters": {{{members}}}}}'.encode())
    assert len(parameters) == 65_534


def test_a_whole_number_has_at_most_400_digits() -> None:
    longest = "9" * MAX_DIGITS
    assert parse_body(b'{"inputs": -' + longest[1:].encode() + b"}")[0] == -int(longest[1:])
    with pytest.raises(Refused, match=r"^the body is not JSON: a whole number has 401 digits: at most 400\.$"):
        parse_body(b'{"inputs": 9' + longest.encode() + b"}")


def request(body: bytes) -> Request:
    """Return a request whose body arrives in two parts."""
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    return Request({"type": "http", "headers": [], "method": "POST", "path": "/"}, receive)


def test_long_bodies_count_until_they_are_answered_and_short_ones_never() -> None:
    """The first 65,536 bytes of each body are free: 80,000 + 30,000 > 100,000."""
    long, other, short = (b"x" * (ALWAYS_BYTES + extra) for extra in (80_000, 30_000, 0))

    async def receive_all() -> None:
        bodies = Bodies(max_bytes=100_000)
        async with bodies.received(request(long)) as received:
            assert received == long
            with pytest.raises(Refused, match="too many long bodies are being received or answered") as refused:
                async with bodies.received(request(other)):
                    pass
            assert refused.value.status == 503
            async with bodies.received(request(short)) as received:
                assert received == short
        async with bodies.received(request(other)) as received:
            assert received == other
        async with bodies.received(request(long)) as received:
            assert received == long

    asyncio.run(receive_all())
