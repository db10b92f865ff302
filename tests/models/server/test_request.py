"""Every bad request gets a 4xx response with one JSON sentence, and the server continues."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from models.endpoints.local.server_folder import ServerFolder
from tests.support.endpoints.bad_requests import CUT_OFF, GOOD, LIMIT, WRONG_BODIES, WRONG_HEADS, bad_bodies
from tests.support.endpoints.small_models import memory_bytes, started
from tests.support.endpoints.talking import Answer, Talk, ask, post
from tests.support.staging.fast_tokenizers import without_special_tokens

MIB = 2**20


def refused(answer: Answer | None) -> Answer:
    """Check that a response is a refusal with one sentence in JSON."""
    assert answer is not None
    assert 400 <= answer.status < 500, (answer.status, answer.body[:300])
    document = answer.json()
    assert document["code"] == answer.status
    assert document["message"]
    assert "\n" not in document["message"]
    assert len(document["message"]) < 400
    return answer


@pytest.mark.parametrize("body", WRONG_BODIES, ids=lambda body: repr(body[:24]))
def test_an_invalid_body_is_refused(server: ServerFolder, body: bytes) -> None:
    refused(ask(str(server.address()), post(body)))


@pytest.mark.parametrize("raw", WRONG_HEADS, ids=lambda raw: repr(raw[:40]))
def test_an_invalid_head_is_refused(server: ServerFolder, raw: bytes) -> None:
    refused(ask(str(server.address()), raw))


@pytest.mark.parametrize("raw", CUT_OFF, ids=lambda raw: repr(raw[:40]))
def test_an_incomplete_request_is_refused(server: ServerFolder, raw: bytes) -> None:
    refused(ask(str(server.address()), raw, half_close=True))


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (post(b"x" * (LIMIT + 1)), 413),
        (post(GOOD, content_type="text/plain"), 415),
        (post(GOOD, "Accept: text/csv"), 406),
        (post(GOOD, path="/nothing"), 404),
        (b"PUT /ping HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", 431),
        (post(b"[" * 100_000), 400),
    ],
)
def test_the_status_fits_the_error(server: ServerFolder, raw: bytes, status: int) -> None:
    assert refused(ask(str(server.address()), raw)).status == status


@pytest.mark.slow
def test_a_body_of_the_largest_size_is_accepted(server: ServerFolder) -> None:
    body = b'{"inputs": "' + b"a" * (LIMIT - 14) + b'"}'
    assert len(body) == LIMIT
    answer = ask(str(server.address()), post(body))
    assert answer is not None
    assert answer.status == 200
    assert refused(ask(str(server.address()), post(body + b" "))).status == 413


def test_a_connection_stays_usable_after_a_refusal(server: ServerFolder) -> None:
    with closing(Talk(str(server.address()))) as talk:
        for body in (b"{", b"x" * (LIMIT + 1), b'{"inputs": 1}'):
            talk.send(post(body))
            refused(talk.answer())
        talk.send(post(GOOD))
        answer = talk.answer()
    assert answer is not None
    assert answer.status == 200


@pytest.mark.slow
def test_a_text_without_tokens_is_refused_and_the_server_continues(tmp_path: Path) -> None:
    """This tokenizer adds no special tokens, so an empty text has no tokens."""
    running = ServerFolder(tmp_path)
    running.start(["--model", str(gpt_like(tmp_path / "model"))])
    try:
        started(running)
        for body, status in ((b'{"inputs": ""}', 400), (GOOD, 200), (b'{"inputs": ["a", ""]}', 400), (GOOD, 200)):
            answer = ask(str(running.address()), post(body))
            assert answer is not None
            assert answer.status == status
            assert status == 200 or "has no tokens" in refused(answer).json()["message"]
    finally:
        running.end()


def gpt_like(folder: Path) -> Path:
    """Make a GPT-2 classifier in the folder."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    tokenizer = without_special_tokens()
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=64, **ends)
    GPT2ForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_pipelined_requests_are_answered_in_order_until_invalid_http(server: ServerFolder) -> None:
    with closing(Talk(str(server.address()))) as talk:
        talk.send(post(GOOD) + post(b"{") + post(GOOD) + b"GARBAGE\r\n\r\n" + post(GOOD))
        answers = [talk.answer() for _ in range(5)]
    assert [answer and answer.status for answer in answers] == [200, 400, 200, 400, None]


def test_a_client_that_closes_its_sending_half_gets_the_answer(server: ServerFolder) -> None:
    answer = ask(str(server.address()), post(GOOD), half_close=True)
    assert answer is not None
    assert answer.status == 200


def test_a_chunked_body_has_the_same_limit(server: ServerFolder) -> None:
    head = b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    good = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    answer = ask(str(server.address()), head + good)
    assert answer is not None
    assert answer.status == 200
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    assert refused(ask(str(server.address()), head + chunk * 100 + b"0\r\n\r\n")).status == 413


def test_random_bad_requests_are_refused(server: ServerFolder) -> None:
    bombard(server, 500, seed=1)


@pytest.mark.slow
def test_ten_thousand_bad_requests_do_not_affect_the_server(server: ServerFolder) -> None:
    bombard(server, 300, seed=2)  # what is allocated once
    before = memory_bytes(server)
    bombard(server, 10_000, seed=3)
    assert memory_bytes(server) - before < 32 * MIB
    assert server.log.stat().st_size < MIB


def bombard(server: ServerFolder, count: int, *, seed: int) -> None:
    """Send bad requests, most of them on reused connections, then check that a good one is answered as before."""
    address = str(server.address())
    expected = ask(address, post(GOOD))
    assert expected is not None
    heads = (*WRONG_HEADS, *map(post, WRONG_BODIES))
    with closing(Talk(address)) as talk:
        for number, body in enumerate(bad_bodies(count, seed)):
            if number % 10 == 9:
                refused(ask(address, heads[number // 10 % len(heads)]))
                continue
            talk.send(post(body))
            refused(talk.answer())
    answer = ask(address, post(GOOD))
    assert answer is not None
    assert json.loads(answer.body) == json.loads(expected.body)


def test_a_long_head_is_refused_even_if_it_arrives_at_once(server: ServerFolder) -> None:
    address = str(server.address())
    assert refused(ask(address, post(GOOD, *["a:"] * 10_000))).status == 431
    answer = ask(address, post(GOOD, *["a:"] * 3_000))
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize(
    ("letters", "size", "status"),
    [(60_000, 1, 400), (2_000, 1, 400), (60_000, 80, 200), (100, 1, 200)],
    ids=["long body", "all with the head", "long chunks", "few chunks"],
)
def test_hundreds_of_small_chunks_are_refused(server: ServerFolder, letters: int, size: int, status: int) -> None:
    body = json.dumps({"inputs": "a" * letters}).encode()
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    raw = head + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
    answer = ask(str(server.address()), raw)
    assert answer is not None
    assert answer.status == status
    if status == 400:
        assert answer.json()["message"] == "the chunks of the body are too small: send at least 64 bytes in each."


def test_pipelined_requests_are_answered_in_order(server: ServerFolder) -> None:
    """About 150 kB, of which the server reads 16 kB at a time."""
    with closing(Talk(str(server.address()))) as talk:
        talk.send((b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n" + post(GOOD)) * 600)
        answers = [talk.answer() for _ in range(1200)]
    assert [answer and len(answer.json()) for answer in answers] == [0, 1] * 600
