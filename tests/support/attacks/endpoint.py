"""Hostile clients of the local endpoint, beside good ones: every good answer arrives, and about as fast as usual."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from models.endpoints.local.server_folder import ServerFolder
from tests.support.attacks.hostile import TOKEN
from tracking.recording.run_description import ROOT

ROUNDS = 5
BLOCK_SECONDS = 4.0
MAX_RATIO = 2.0
"""Target for the p99 beside an attack, as a multiple of that beside the harmless load."""
MAX_GROWTH_MB = 200
PAUSE_SECONDS = 0.3
SETTLE_SECONDS = 60.0
"""Longest time for the server to finish what a load has left behind."""
IDLE_PERCENT = 10.0
"""Most CPU time of a server with nothing to do, as a share of one core."""
START_SECONDS = 240
NOTE = (
    "endpoint: MiniLM with six labels; 4 good clients send 60 short texts per second. Beside them run, alternately, an "
    "attack and an equal load of harmless requests: as many connections, requests per second and bytes (texts, for "
    "requests with many texts). An attempt is one block of 4 s; a good request without a 200 is lost. The model uses "
    "one thread: with two on two cores, any other program makes OpenMP's threads wait for each other."
)


@dataclass
class Block:
    """Measurements of the good clients in one block."""

    p99_ms: float
    answers: Counter[str]

    @property
    def lost(self) -> int:
        """Good requests without a good answer."""
        return self.answers.total() - self.answers["200"]


class Clients:
    """A process of `tests.support.attacks.crowd`."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "tests.support.attacks.crowd", address]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def begin(self, attack: str, side: str, seconds: float) -> None:
        """Start a load."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([attack, side, seconds]) + "\n")
        self._process.stdin.flush()

    def outcome(self) -> dict[str, Any]:
        """Wait for the load to end, and return its outcome."""
        return dict(json.loads(self._read()))

    def _read(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def close(self) -> None:
        """End the process."""
        with self._process:  # closes the pipes and waits
            self._process.kill()


@contextmanager
def attacked_server(folder: Path, model: Path) -> Iterator[ServerFolder]:
    """Start a server with a token."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    server = ServerFolder(folder)
    server.start(["--model", str(model), "--token-file", str(token)])
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server.answers():
            if not server.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(server.last_log_lines())
            time.sleep(0.1)
        yield server
    finally:
        server.end()


@dataclass
class Arena:
    """A server with good and other clients."""

    server: ServerFolder
    good: Clients
    others: Clients

    def block(self, attack: str, side: str, seconds: float) -> Block:
        """Run the good clients beside one side of an attack."""
        self.others.begin(attack, side, seconds)
        self.good.begin(attack, "good", seconds)
        outcome = self.good.outcome()
        self.others.outcome()
        self._settle()
        latencies = outcome["seconds"]
        p99 = 1000 * statistics.quantiles(latencies, n=100, method="inclusive")[98] if len(latencies) > 1 else 0.0
        return Block(p99, Counter(outcome["answers"]))

    def _settle(self) -> None:
        """Wait until the server has nothing to do, so that what a load leaves behind does not reach the next."""
        server = psutil.Process(self._process_id())
        deadline = time.monotonic() + SETTLE_SECONDS
        time.sleep(PAUSE_SECONDS)
        while server.cpu_percent(interval=PAUSE_SECONDS) > IDLE_PERCENT and time.monotonic() < deadline:
            pass

    def _process_id(self) -> int:
        return int(json.loads((self.server.path / "address.json").read_text())["pid"])

    def memory_mb(self) -> float:
        """Return the server's resident memory."""
        return float(psutil.Process(self._process_id()).memory_info().rss / 1e6)

    def take_log(self) -> str:
        """Return the server's output since the last call."""
        with self.server.log.open("r+", errors="replace") as log:
            text = log.read()
            log.truncate(0)
        return text


@contextmanager
def arena(folder: Path, model: Path) -> Iterator[Arena]:
    """Start a server and its clients."""
    with attacked_server(folder, model) as server, ExitStack() as stack:
        good, others = (Clients(str(server.address())) for _ in range(2))
        stack.callback(good.close)
        stack.callback(others.close)
        yield Arena(server, good, others)
