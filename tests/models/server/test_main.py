"""The server's process: its options, its address and its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from models.endpoints.local import ServerFolder
from models.inference.predictor import load_predictor
from tests.conftest import ROOT
from tests.support.models.task_models import start

TEXTS = [" ".join(["winter is coming"] * count) for count in range(1, 9)]


def post(address: str, body: bytes) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)) as connection:
        connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_answers_of_requests_that_run_together_are_those_of_each_alone(server: ServerFolder, tiny_model: Path) -> None:
    predictor = load_predictor(tiny_model)
    bodies = [json.dumps({"inputs": text}).encode() for text in TEXTS] * 4
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(lambda body: post(server.read("address.json")["address"], body), bodies))
    for text, (status, answer) in zip(TEXTS * 4, answers, strict=True):
        alone = predictor.answer(text)[0]
        assert (status, answer[0]["label"]) == (200, alone["label"])
        assert answer[0]["score"] == pytest.approx(alone["score"], abs=1e-6)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "models.server", "--model", "nothing", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    refused = run("--host", "0.0.0.0")
    assert refused.returncode == 2
    assert refused.stderr == "error: --host 0.0.0.0 lets other machines use the server, so --token-file is required.\n"
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef")
    refused = run("--host", "192.0.2.1", "--token-file", str(token))  # an address of no machine
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: cannot listen on --host 192.0.2.1: Cannot assign requested address")


def accepts(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


def test_a_stopped_server_finishes_what_it_has_begun(tiny_model: Path, tmp_path: Path) -> None:
    server = ServerFolder(tmp_path)
    try:
        start(server, tiny_model)
        address_file = tmp_path / "address.json"
        assert address_file.stat().st_mode & 0o777 == 0o600
        written = json.loads(address_file.read_text())
        assert written.keys() == {"pid", "address"}
        body = b'{"inputs": "a"}'
        parts = urlsplit(written["address"])
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
            head = "POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 100")  # so the request has begun
            os.kill(written["pid"], signal.SIGTERM)
            while accepts(str(parts.hostname), int(parts.port or 0)):
                time.sleep(0.05)
            connection.sendall(body)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.failure_reason().endswith(f": Serving {tiny_model} in fp32 at {written['address']}")
    finally:
        server.delete()
    assert not server.process()
