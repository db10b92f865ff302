"""A simulated account in its own process: `python -m tests.support.aws.serve FOLDER LATE_SECONDS`.

The first line that it prints contains the account's environment variables. Each line of input is a query, `calls` (time
and operation of each call) or `jobs` (names). The response is a line of JSON. At the end of the input, the process
stops all jobs and exits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.aws.account import open_account

ROOT = Path(__file__).resolve().parents[3]


class Served:
    """An account in another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.variables: dict[str, str] = self._line()

    def ask(self, query: str) -> Any:
        """Return the response to `calls` or `jobs`."""
        assert self._process.stdin
        self._process.stdin.write(query + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


@contextmanager
def served(folder: Path, late_seconds: float = 0.0) -> Iterator[Served]:
    """Open an account in another process, which exits at the end of the block.

    It shows lines of logs and billed seconds `late_seconds` after the fact.
    """
    command = [sys.executable, "-m", "tests.support.aws.serve", str(folder), str(late_seconds)]
    with (folder.parent / "account.txt").open("ab") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield Served(process)
    finally:
        process.communicate()


def main(folder: str, late_seconds: str) -> None:
    with open_account(Path(folder)) as account:
        account.make_role()
        account.logs.delay_seconds = account.jobs.faults.billing_seconds = float(late_seconds)
        print(json.dumps(account.variables), flush=True)
        for query in sys.stdin:
            queries = {"calls": lambda: account.calls, "jobs": account.jobs.names}
            print(json.dumps(queries[query.strip()]()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
