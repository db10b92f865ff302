"""`python -m acceptance --role ROLE --budget USD`, which `make accept-aws` calls."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from acceptance.options import Options, read_budget, read_mlflow
from acceptance.run import accept
from training.contract.errors import InputError, TrainfareError

FOLDER = Path("test-artifacts") / "acceptance"
"""Folder of all acceptances. Git ignores it."""


def main(arguments: Sequence[str]) -> int:
    """Run an acceptance and return the exit code: 0 as expected, 1 differences or failures, 2 wrong input or a budget
    that is too small, 130 interrupted."""
    try:
        return accept(_options(arguments))
    except TrainfareError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted. Nothing was started.", file=sys.stderr)
        return 130


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="acceptance", description="Acceptance on a real AWS account.")
    parser.add_argument("--role", default="", help="role of jobs and endpoints, by name or ARN")
    parser.add_argument("--budget", default="", metavar="USD", help="most that everything may cost")
    parser.add_argument("--region", default="", help="region; by default that of the environment")
    parser.add_argument("--bucket", default="", help="bucket; by default sagemaker-<region>-<account>")
    parser.add_argument("--mlflow", default="", metavar="ARN", help="managed MLflow server to test as well")
    parser.add_argument("--prices", default="", metavar="FILE", help="table of prices instead of AWS's price list")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the report")
    read = parser.parse_args(arguments)
    if not read.role:
        raise InputError("ROLE is missing: set it to the name or ARN of the jobs' role (docs/aws.md).")
    budget = read_budget(read.budget)
    mlflow = read_mlflow(read.mlflow)
    return Options(
        role=read.role,
        budget_usd=budget,
        region=read.region or None,
        bucket=read.bucket or None,
        mlflow=mlflow,
        prices=Path(read.prices).resolve() if read.prices else None,
        folder=read.folder.resolve() / secrets.token_hex(2),
    )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sys.exit(main(sys.argv[1:]))
