"""Random experiments for SageMaker: each is refused before an upload, or its request is one that AWS accepts."""

from __future__ import annotations

import os
import time
from contextlib import chdir
from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.results import Row
from tests.support.aws.account import open_account
from tests.support.requests.random_experiments import RandomExperiments

EXPERIMENTS, SEED = 10_000, 20261126
FRESH_EVERY = 20
"""One experiment in so many has inputs that are not uploaded yet."""
LIMIT_SECONDS = 300.0
NOTE = (
    "Random experiments for SageMaker, many with values at and beyond a limit, against a simulated account that checks "
    f"each request by botocore's model and the service's further rules. Seed {SEED}. One in {FRESH_EVERY} has inputs "
    "of its own, whose upload is made."
)


def run(folder: Path) -> Result:
    """Try the experiments, and count the outcomes."""
    started = time.monotonic()
    # The folder is deleted afterwards, and MKL ends a process whose working directory does not exist.
    with open_account(folder / "account") as account, chdir(folder):
        os.environ.update(account.variables)
        account.make_role()
        experiments = RandomExperiments(folder, account, SEED)
        for number in range(EXPERIMENTS):
            experiments.try_one(number, fresh=number % FRESH_EVERY == 0)
    outcomes, seconds = experiments.outcomes, time.monotonic() - started
    faults = len(outcomes.faults)
    counts = Counts("random experiment", tried=EXPERIMENTS, survived=EXPERIMENTS - faults)
    counts.faults.extend(outcomes.faults)
    rows = [
        *(Row(name=f"random experiments {name}", value=outcomes.counts[name], unit="experiments")
          for name in ("accepted", "refused")),
        Row(name="random experiments refused after an upload", value=faults, unit="experiments", target="none",
            met=faults == 0),
        Row(name="time of all random experiments", value=seconds, unit="s", target=f"< {LIMIT_SECONDS:g}",
            met=seconds < LIMIT_SECONDS),
    ]  # fmt: skip
    return Result(counts=[counts], rows=rows, note=NOTE)
