"""Attacks on an endpoint, each with an equal load of harmless requests.

The harmless side has as many clients, and sends as many requests per second with as many bytes, unless the attack's
comment names another measure: connections for attacks without requests, and texts for requests with many texts.
"""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.support.attacks.crowd import Load

TOKEN = "0123456789abcdef-attacked"
"""Token of the attacked server."""
TEXT = "i was feeling a little vain when i did this one"
PROSE = (
    "Winter is coming, and it will be dark soon; nobody in the village has seen the river freeze before December, "
    "but the old men say that their fathers walked across it in October.\n"
)
LARGE, MEDIUM, SMALL = 5_900_000, 100_000, 16_000
"""Bytes of a body just below the limit, of one that is parsed in a thread, and of one below 16 KiB."""
SHORT = 2_000


@dataclass(frozen=True)
class Attack:
    """Hostile clients, and as many harmless ones."""

    hostile: Load
    harmless: Load


def post(body: bytes, *headers: str, token: str = TOKEN, host: str = "localhost") -> bytes:
    """Return a request as bytes."""
    lines = ["POST /invocations HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", f"Authorization: Bearer {token}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def text(content: str) -> bytes:
    """Return a body with one text."""
    return json.dumps({"inputs": content}, ensure_ascii=False).encode()


def texts(content: str, count: int) -> bytes:
    """Return a body with many texts."""
    return json.dumps({"inputs": [content] * count}).encode()


def prose(size: int) -> bytes:
    """Return a body of about this size, with one text of plain English."""
    return text((PROSE * (size // len(PROSE) + 1))[: size - 30])


def filled(start: bytes, unit: bytes, size: int, end: bytes = b"") -> bytes:
    """Return a body of about this size that repeats `unit`."""
    return start + unit * ((size - len(start) - len(end)) // len(unit)) + end


def hard_words(size: int) -> bytes:
    """Return a text of words with 100 rare letters, the slowest for WordPiece."""
    draw = random.Random(0)
    words = (" ".join("".join(draw.choices("qxzjkvw", k=100)) for _ in range(100)) + " ") * (size // 10_000 + 1)
    return text(words[: size - 30])


def rare_characters(size: int) -> bytes:
    """Return a text of Chinese characters, each a word of its own, with accents."""
    draw = random.Random(0)
    kinds = [chr(draw.randrange(0x3400, 0x9FFF)) + "e\u0301\u0327" for _ in range(100)]
    return text(unicodedata.normalize("NFD", "".join(kinds)) * (size // 800))


GOOD = Load(raw=post(text(TEXT)), clients=4, per_second=60)
"""The good clients that every attack stands beside."""


def bodies(hostile: bytes, size: int, per_second: float, clients: int = 4) -> Attack:
    """Return an attack with one body; a harmless body is as long."""
    load = Load(raw=post(hostile), clients=clients, per_second=per_second)
    return Attack(load, replace(load, raw=post(prose(size))))


def _large_bodies() -> dict[str, Attack]:
    kinds = {
        "5.9 MB of empty lists": filled(b'{"inputs": [', b"[],", LARGE, b"[]]}"),
        "5.9 MB of nested lists": b"[" * LARGE,
        "5.9 MB of an unended text": filled(b'{"inputs": "', b'\\"', LARGE),
        "5.9 MB of commas and texts": filled(b"", b',""', LARGE),
        "5.9 MB of long numbers": filled(b'{"inputs": [', b"9" * 4300 + b",", LARGE, b"9]}"),
        "5.9 MB of hard words": hard_words(LARGE),
        "5.9 MB of hard words in a pair": hard_words(LARGE).replace(
            b'{"inputs": "', b'{"inputs": {"text_pair": "a", "text": "'
        )
        + b"}",
        "5.9 MB of one word": filled(b'{"inputs": "', b"a", LARGE, b'"}'),
    }
    return {name: bodies(body, LARGE, 1.0, clients=2) for name, body in kinds.items()}


def _smaller_bodies() -> dict[str, Attack]:
    name = filled(b'{"inputs": "a", "parameters": {"', b"top_k", MEDIUM, b'": 1}}')
    return {
        "100 kB of hard words": bodies(hard_words(MEDIUM), MEDIUM, 4),
        "100 kB of rare characters": bodies(rare_characters(MEDIUM), MEDIUM, 4),
        "100 kB in the name of a parameter": bodies(name, MEDIUM, 4),
        "16 kB of hard words": bodies(hard_words(SMALL), SMALL, 4),
        "2 kB of hard words": bodies(hard_words(SHORT), SHORT, 10),
        "16 kB of nested lists": bodies(filled(b'{"inputs": ', b"[", SMALL), SMALL, 4),
    }


def _many_texts() -> dict[str, Attack]:
    """Return requests with many texts. The harmless clients send as many texts per second, one in each request."""
    several = Load(raw=post(texts(TEXT, 512)), clients=2, per_second=0.25)
    full = Load(raw=post(texts(TEXT, 1024)), clients=4, per_second=0.5)
    long = Load(raw=post(texts((PROSE * 20)[:2500], 32)), clients=2, per_second=0.25)
    return {
        "512 texts in a request": Attack(several, Load(raw=post(text(TEXT)), clients=8, per_second=128)),
        "1,024 texts in a request": Attack(full, Load(raw=post(texts(TEXT, 16)), clients=8, per_second=32)),
        "32 long texts in a request": Attack(long, Load(raw=post(text((PROSE * 20)[:2500])), clients=8, per_second=8)),
    }


def _connections() -> dict[str, Attack]:
    """Return attacks by connections. The harmless clients open as many connections per second, and use each."""
    good = post(text(TEXT))
    head = b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    begun = post(b" " * LARGE)[: -LARGE // 60]
    used = Load(raw=good, clients=8, per_second=40, act="ask_anew")

    def held(raw: bytes, clients: int, per_second: float = 150) -> Load:
        return Load(raw=raw, clients=clients, per_second=per_second, act="hold", hold_seconds=60)

    return {
        "600 idle connections": Attack(held(b"", 600), held(good, 600)),
        "600 unfinished heads": Attack(held(head, 600), held(good, 600)),
        "600 unfinished bodies": Attack(held(good[:-5], 600), held(good, 600)),
        "40 unfinished bodies of 5.9 MB": Attack(held(begun, 40, 10), Load(raw=good, clients=8, per_second=10)),
        "100 slow heads": Attack(
            Load(raw=head + b"a" * 200, clients=100, per_second=20, act="drip", hold_seconds=60),
            replace(used, per_second=20),
        ),
        "connections dropped at once": Attack(replace(used, act="drop"), used),
        "connections dropped without a request": Attack(replace(used, act="drop", raw=b""), used),
    }


def _protocol() -> dict[str, Attack]:
    """Return attacks by HTTP. Pipelined and unread requests are compared with as many that are sent one by one."""
    good = post(text(TEXT))
    ping = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
    tiny_headers = post(b"", *["a:"] * 15_000)
    chunked = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")

    def each(raw: bytes, per_second: float, equal: bytes = good, act: str = "ask_anew") -> Attack:
        load = Load(raw=raw, clients=8, per_second=per_second, act=act)
        return Attack(load, replace(load, raw=equal))

    return {
        "pipelined requests": Attack(
            Load(raw=ping * 20_000, clients=2, per_second=0.5, act="hold", hold_seconds=2),
            Load(raw=ping, clients=8, per_second=400),
        ),
        "unread answers": Attack(
            Load(raw=good * 100, clients=8, per_second=1, act="hold", hold_seconds=60),
            Load(raw=good, clients=8, per_second=100),
        ),
        "wrong host": each(post(text(TEXT), host="evil.example"), 40),
        "wrong token": each(post(text(TEXT), token="x" * 24), 40),
        "two lengths": each(post(b"0\r\n\r\n", "Transfer-Encoding: chunked"), 40),
        "60 kB of headers": each(tiny_headers, 8, post(prose(len(tiny_headers)))),
        "100 kB in chunks of a byte": each(chunked + b"1\r\na\r\n" * 16_000, 4, post(prose(MEDIUM))),
    }


def attacks() -> dict[str, Attack]:
    """Return all attacks by name."""
    groups: tuple[Callable[[], dict[str, Attack]], ...] = (
        _large_bodies, _smaller_bodies, _many_texts, _connections, _protocol,
    )  # fmt: skip
    return {name: attack for group in groups for name, attack in group().items()}
