"""Attacks beside good clients: every good request is answered."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from models.endpoints.local.server_folder import ServerFolder
from models.server.room import MAX_UNFINISHED_BODIES
from tests.conftest import ROOT
from tests.support.attacks.endpoint import Arena, arena
from tests.support.attacks.hostile import attacks
from tests.support.endpoints.bad_requests import GOOD, LIMIT
from tests.support.endpoints.small_models import memory_bytes, started
from tests.support.endpoints.talking import Answer, Talk, ask, post

CONNECTIONS = 600
"""More idle connections than the server keeps open."""

EMPTY_LISTS = b'{"inputs": [' + b"[]," * 1_900_000 + b"[]]}"
EMPTY_OBJECTS = b'{"inputs": [' + b"{}," * 1_900_000 + b"{}]}"
UNENDED = b'{"inputs": "' + b'\\"' * 2_500_000
DEEP = b"[" * 5_000_000
LONG_TEXT = b'{"inputs": "' + b"word " * 500_000 + b'"}'


@contextmanager
def repeated(address: str, raw: bytes, clients: int = 2) -> Iterator[list[Answer | None]]:
    """Send a request again and again, from several clients. Yields a list, to which the answers are added."""
    stopping = threading.Event()
    answers: list[Answer | None] = []

    def send() -> None:
        while not stopping.is_set():
            answers.append(ask(address, raw))

    threads = [threading.Thread(target=send) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def good_seconds(address: str, seconds: float) -> list[float]:
    """Send good requests, one after the other, and return their durations. Each must be answered."""
    durations, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        answer = ask(address, post(GOOD))
        assert answer is not None
        assert answer.status == 200, answer.body[:200]
        durations.append(time.monotonic() - began)
    return durations


@pytest.mark.slow
@pytest.mark.parametrize("body", [EMPTY_LISTS, EMPTY_OBJECTS, UNENDED, DEEP, LONG_TEXT[: LIMIT // 2]])
def test_good_clients_are_answered_beside_hostile_bodies(server: ServerFolder, body: bytes) -> None:
    """However slow the machine is, several hostile bodies are answered meanwhile, so that the two really overlap."""
    address = str(server.address())
    with repeated(address, post(body)) as hostile:
        while len(hostile) < 8:
            assert good_seconds(address, 0.5)


@pytest.mark.slow
def test_idle_connections_do_not_lock_out_good_clients(server: ServerFolder) -> None:
    address = urlsplit(str(server.address()))
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=30)))
        assert good_seconds(str(server.address()), 1.0)


@pytest.mark.slow
def test_a_client_in_use_keeps_its_connection_beside_idle_ones(server: ServerFolder) -> None:
    """Idle connections are closed before one whose request is being answered; the newest idle one stays."""
    address = urlsplit(str(server.address()))
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=30)))
        with closing(Talk(str(server.address()))) as talk:
            for _ in range(20):
                talk.send(post(GOOD))
                answer = talk.answer()
                assert answer is not None
                assert answer.status == 200


@pytest.fixture(scope="module")
def stage(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A server with good and other clients."""
    with arena(tmp_path_factory.mktemp("arena"), tiny_model) as stage:
        yield stage


@pytest.mark.slow
@pytest.mark.parametrize("name", attacks())
def test_no_good_answer_is_lost_beside_an_attack(stage: Arena, name: str) -> None:
    stage.take_log()
    block = stage.block(name, "hostile", 2.0)
    assert block.answers["200"] > 0
    assert block.lost == 0
    assert stage.take_log() == ""
    assert stage.server.is_alive()


@pytest.mark.slow
def test_memory_does_not_grow_from_attack_to_attack(stage: Arena) -> None:
    names = [
        "5.9 MB of hard words",
        "5.9 MB of one word",
        "pipelined requests",
        "40 unfinished bodies of 5.9 MB",
    ]
    for name in names:
        stage.block(name, "hostile", 2.0)
    before = stage.memory_mb()
    for name in names:
        stage.block(name, "hostile", 2.0)
    assert stage.memory_mb() - before < 200


@pytest.mark.slow
def test_a_kept_connection_stays_open_beside_unfinished_bodies(server: ServerFolder) -> None:
    """An unfinished body gives way to a new connection, before a connection that has been answered."""
    address = urlsplit(str(server.address()))
    with ExitStack() as stack, closing(Talk(str(server.address()))) as talk:
        talk.send(post(GOOD))
        assert talk.answer() is not None
        for _ in range(CONNECTIONS):
            other = stack.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=30)))
            other.sendall(post(GOOD)[:-5])
        assert good_seconds(str(server.address()), 0.5)
        talk.send(post(GOOD))
        answer = talk.answer()
        assert answer is not None
        assert answer.status == 200


def test_the_oldest_unfinished_bodies_give_way_to_further_ones(server: ServerFolder) -> None:
    address = urlsplit(str(server.address()))
    with ExitStack() as stack:
        links = [
            stack.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=30)))
            for _ in range(MAX_UNFINISHED_BODIES + 1)
        ]
        for link in links:
            link.sendall(post(GOOD)[:-5])
        assert b"too many requests are unfinished, and this body is late" in links[0].recv(4096)


@pytest.mark.slow
def test_memory_is_given_back_after_a_long_text(server: ServerFolder) -> None:
    address = str(server.address())
    for _ in range(2):
        ask(address, post(LONG_TEXT))
    before = memory_bytes(server)
    for _ in range(3):
        ask(address, post(LONG_TEXT))
    assert memory_bytes(server) - before < 200 * 2**20


@pytest.mark.slow
def test_a_server_for_other_machines_needs_a_token(tiny_model: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef\n")
    command = [sys.executable, "-m", "models.server", "--model", str(tiny_model), "--host", "0.0.0.0"]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert refused.returncode == 2
    assert refused.stderr == (
        "error: --host 0.0.0.0 lets other machines use the server, so --token-file is required.\n"
    )
    folder = ServerFolder(tmp_path)
    folder.start(["--model", str(tiny_model), "--host", "0.0.0.0", "--token-file", str(token)])
    try:
        started(folder)
        assert (tmp_path / "address.json").stat().st_mode & 0o777 == 0o600
        address = str(folder.address()).replace("0.0.0.0", "127.0.0.1")
        answers = {
            "none": ask(address, post(GOOD)),
            "wrong": ask(address, post(GOOD, "Authorization: Bearer 0123456789abcdeX")),
            "right": ask(address, post(GOOD, "Authorization: Bearer 0123456789abcdef")),
        }
        statuses = {name: answer and answer.status for name, answer in answers.items()}
        assert statuses == {"none": 401, "wrong": 401, "right": 200}
        assert answers["none"] is not None
        assert "token" in json.loads(answers["none"].body)["message"]
    finally:
        folder.end()
