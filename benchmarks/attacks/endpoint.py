"""Hostile clients of the local endpoint, beside good ones: every good answer arrives, and about as fast as usual."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.attacks.counts import Counts, Result
from benchmarks.bench_serving import make_model
from benchmarks.serving.hostile import TOKEN, attacks
from benchmarks.support.results import Row
from models.endpoints.local.server_folder import ServerFolder
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
    """A process of `benchmarks.serving.crowd`."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "benchmarks.serving.crowd", address]
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


def attacked(arena: Arena, name: str, rounds: int, seconds: float, counts: Counts) -> list[Row]:
    """Run an attack and its harmless load alternately, count each attacked block, and return the figures."""
    blocks: dict[str, list[Block]] = {"hostile": [], "harmless": []}
    before = arena.memory_mb()
    for number in range(rounds):
        sides: Sequence[str] = ("hostile", "harmless") if number % 2 else ("harmless", "hostile")
        for side in sides:
            arena.take_log()
            block = arena.block(name, side, seconds)
            blocks[side].append(block)
            if side == "hostile":
                counts.add(f"{name}, block {number}", lost=bool(block.lost), output=arena.take_log())
    growth = arena.memory_mb() - before
    hostile, harmless = ([block.p99_ms for block in blocks[side]] for side in ("hostile", "harmless"))
    ratio = statistics.median(hostile) / statistics.median(harmless)
    lost = {side: sum(block.lost for block in blocks[side]) for side in blocks}
    answers = sum(block.answers["200"] for block in blocks["hostile"])
    print(
        f"{name:38s} p99 {statistics.median(hostile):7.1f} ms, harmless {statistics.median(harmless):7.1f} ms, ratio "
        f"{ratio:5.2f}, good answers {answers}, lost {lost['hostile']} (harmless {lost['harmless']}), "
        f"growth {growth:.0f} MB",
        file=sys.stderr,
        flush=True,
    )
    target = f"<= {MAX_RATIO:g}"
    return [
        Row(name=f"{name}: p99 / harmless", value=ratio, unit="x", n=rounds, target=target, met=ratio <= MAX_RATIO),
        Row(name=f"{name}: p99", value=statistics.median(hostile), unit="ms", n=rounds),
        Row(name=f"{name}: lost good answers of {answers + lost['hostile']}", value=lost["hostile"], unit="answers",
            target="0", met=lost["hostile"] == 0),
        Row(name=f"{name}: memory afterwards", value=growth, unit="MB", target=f"< {MAX_GROWTH_MB}",
            met=growth < MAX_GROWTH_MB),
    ]  # fmt: skip


@contextmanager
def arena(folder: Path, model: Path) -> Iterator[Arena]:
    """Start a server and its clients."""
    with attacked_server(folder, model) as server, ExitStack() as stack:
        good, others = (Clients(str(server.address())) for _ in range(2))
        stack.callback(good.close)
        stack.callback(others.close)
        yield Arena(server, good, others)


def run(folder: Path) -> Result:
    """Run every attack."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    make_model(folder / "model")
    counts, rows = Counts("endpoint"), []
    with arena(folder, folder / "model") as stage:
        stage.block(next(iter(attacks())), "nobody", BLOCK_SECONDS)
        for name in attacks():
            rows += attacked(stage, name, ROUNDS, BLOCK_SECONDS, counts)
    return Result(counts=[counts], rows=rows, note=NOTE)
