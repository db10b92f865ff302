"""Any number of invalid requests, each wrong in a different way."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.support.endpoints.talking import post

GOOD = json.dumps({"inputs": "Winter is coming and it will be dark soon."}).encode()
LIMIT = 6 * 2**20

WRONG_BODIES: tuple[bytes, ...] = (
    *(b"", b" ", b"null", b"true", b"3", b'"text"', b"[]", b"{}", b"{", b"[1", b'{"inputs"', b'{"inputs":}', b"NaN"),
    *(b'{"inputs": NaN}', b'{"inputs": Infinity}', b'{"inputs": -Infinity}', b'{"inputs": null}', b'{"inputs": 3}'),
    *(b'{"inputs": true}', b'{"inputs": []}', b'{"inputs": [[]]}', b'{"inputs": [null]}', b'{"inputs": ["a", 1]}'),
    *(b'{"inputs": {}}', b'{"inputs": {"text": 1}}', b'{"inputs": {"text": "a", "text_pair": 2}}'),
    *(b'{"inputs": {"text": "a", "other": "b"}}', b'{"input": "a"}', b'{"inputs": "a", "parameter": {}}'),
    *(b'{"inputs": "a", "parameters": []}', b'{"inputs": "a", "parameters": {"top_k": 0}}'),
    *(b'{"inputs": "a", "parameters": {"top_k": "b"}}', b'{"inputs": "a", "parameters": {"top_k": 1e999}}'),
    *(b'{"inputs": "a", "parameters": {"nothing": 1}}', b'{"inputs": "\\ud800"}', b'{"inputs": "a\\udfff b"}'),
    *(
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf" + GOOD,
        b'{"inputs": "\xff"}',
        b'{"inputs": "\xed\xa0\x80"}',
        b"\x00" * 99,
    ),
    *(b"[" * 100_000, b'{"inputs":' * 50_000, b'{"inputs": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"),
    *(b'{"inputs": ' + b"9" * 5_000 + b"}", b"inputs=a", b"<inputs>a</inputs>", b"\x1f\x8b\x08\x00", b"PK\x03\x04"),
    *(b"{'inputs': 'a'}", b'{"inputs": "a",}', b'{"inputs": "a"} {"inputs": "b"}', b'{"inputs": "a\nb"}'),
    b'{"inputs": [' + b",".join([b'"a"'] * 5_000) + b"]}",
    b"x" * (LIMIT + 1),
)

WRONG_HEADS: tuple[bytes, ...] = (
    post(GOOD, content_type="text/csv"),
    post(GOOD, content_type="application/octet-stream"),
    post(GOOD, content_type="application/x-npy"),
    post(GOOD, content_type="application/json; charset=latin-1"),
    post(GOOD, "Content-Encoding: gzip"),
    post(GOOD, "Accept: text/csv"),
    post(GOOD, path="/"),
    post(GOOD, path="/invocation"),
    post(GOOD, path="/../../etc/passwd"),
    post(GOOD, path="/ping"),
    post(GOOD, path="/invocations/%00"),
    b"GET /invocations HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"DELETE /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\nab",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"POST " + b"/a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /invocations HTTP/9.9\r\nHost: localhost\r\n\r\n",
    post(GOOD).replace(b"Host: localhost", b"Host: evil.example"),
    post(GOOD).replace(b"Content-Type: application/json\r\n", b""),
    post(b"0\r\n\r\n", "Transfer-Encoding: chunked"),
    post(b'{"inputs": [' + b"[]," * 1_900_000 + b"[]]}"),
    post(b'{"inputs": [' + b"{}," * 1_900_000 + b"{}]}"),
    b"POST\r\n\r\n",
    b"\r\n\r\n\r\n\r\nhello\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
    b"\x00" * 300 + b"\r\n\r\n",
)

CUT_OFF: tuple[bytes, ...] = (
    post(GOOD)[:-3],
    post(GOOD)[:40],
    b"P",
    b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
)
"""Requests whose sender closes its half of the connection before their end."""


def bad_bodies(count: int, seed: int) -> Iterator[bytes]:
    """Yield invalid bodies: damaged valid ones, random bytes, and JSON of the wrong type."""
    draw = random.Random(seed)
    while count:
        body = draw.choice((_damaged, _random_bytes, _wrong_kind))(draw)
        if not is_good(body):
            count -= 1
            yield body


def is_good(body: bytes) -> bool:
    """Return True if a body happens to be a valid request."""
    try:
        document = json.loads(body.decode("utf-8"))
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict) or not set(document) <= {"inputs", "parameters"}:
        return False
    inputs = document.get("inputs")
    return document.get("parameters") in (None, {}) and (
        isinstance(inputs, str)
        or (isinstance(inputs, list) and all(isinstance(each, str) for each in inputs) and inputs)
    )


def _damaged(draw: random.Random) -> bytes:
    body = bytearray(GOOD)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body))
        match draw.randrange(3):
            case 0:
                body[at] = draw.randrange(256)
            case 1:
                del body[at]
            case _:
                body[at:at] = draw.randbytes(draw.randint(1, 9))
    return bytes(body)


def _random_bytes(draw: random.Random) -> bytes:
    return draw.randbytes(draw.choice((1, 7, 80, 900, 20_000)))


def _wrong_kind(draw: random.Random) -> bytes:
    return json.dumps({draw.choice(("inputs", "input", "data", "")): _value(draw, 3)}).encode()


def _value(draw: random.Random, depth: int) -> Any:
    kind = draw.randrange(7 if depth else 5)
    if kind == 5:
        return [_value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    if kind == 6:
        return {draw.choice(("text", "question", "a")): _value(draw, depth - 1) for _ in range(draw.randint(0, 3))}
    return draw.choice((None, True, draw.random(), draw.getrandbits(80), [[]], {"text": []}))
