"""The command line: `trainfare VERB`, or `python -m experiments VERB`. The verbs are in `experiments.commands`."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import click
from click.shell_completion import shell_complete

from experiments.commands.jobs import attach, jobs, report, ui
from experiments.commands.models import deploy, endpoints, predict, register, undeploy
from experiments.commands.training import check, compare, plan, probe, sweep, train
from experiments.commands.verb import CONTEXT_SETTINGS, VerbGroup
from experiments.running.output import answer, json_answer, print_error, sentence
from state.permissions import set_umask
from training.contract.errors import InputError, TrainfareError

NAME = "trainfare"
COMPLETION_VARIABLE = "_TRAINFARE_COMPLETE"
"""Variable with which click's completion scripts request completions."""
NOT_IN_MLPROJECT = ("attach", "ui", "jobs")
"""Verbs that are not entry points of `MLproject`: they only follow or show what other commands started."""
EPILOG = f"""\
Options are fields: --name value or --name=value, with dots for nested fields. docs/experiments.md lists all fields of
an experiment.

\b
Examples:
  trainfare plan --experiment demo
  trainfare compare --experiment demo --compare.repeats 3
  trainfare train --data.train reviews.jsonl --compiler inductor
  trainfare compare --help

All verbs except {", ".join(NOT_IN_MLPROJECT[:-1])} and {NOT_IN_MLPROJECT[-1]} are also MLflow entry points, with -P for
each field:

\b
  mlflow run . -e compare -P experiment=demo -P batch_size=32 --env-manager local

To complete verbs and fields with Tab in bash (or zsh, fish):

\b
  eval "$({COMPLETION_VARIABLE}=bash_source {NAME})"
"""


cli = VerbGroup(
    name=NAME,
    commands=[
        *(train, compare, check, probe, sweep, plan, attach, report, register, deploy, predict, undeploy),
        *(endpoints, ui, jobs),
    ],
    help="Find the setting that trains a model for the fewest billable seconds, and report how sure the answer is.",
    epilog=EPILOG,
    subcommand_metavar="VERB [--FIELD VALUE ...]",
    context_settings=CONTEXT_SETTINGS,
)
_PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
click.version_option(_PROJECT["version"], prog_name=NAME, message="%(prog)s %(version)s")(cli)
VERBS = tuple(cli.commands)


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return the exit code; docs/output.md lists them."""
    words = list(arguments)
    if not words or words[0] == "help":
        words = [*words[1:], "--help"]
    is_json = "--format=json" in words or ("--format", "json") in pairwise(words)
    with json_answer() if is_json else nullcontext():
        return _main(words)


def _main(words: list[str]) -> int:
    try:
        # Not `cli.main`, which replaces KeyboardInterrupt and loses its notes about jobs that are still running.
        with cli.make_context(NAME, words) as context:
            return cli.invoke(context) or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path.removeprefix(f"{NAME} ") if error.ctx else NAME
        return _fail(error.exit_code, f"error: {command}: {error.format_message()}")
    except TrainfareError as error:
        return _fail(error.exit_code, " ".join(map(str, ("error:", error, *getattr(error, "__notes__", ())))))
    except KeyboardInterrupt as end:
        return _fail(130, " ".join(("interrupted.", *getattr(end, "__notes__", ()))))
    except Exception as error:
        if (text := sentence(error)) is None:
            raise
        return _fail(1, " ".join(("error:", text, *getattr(error, "__notes__", ()))))


def _fail(exit_code: int, text: str) -> int:
    print_error(text)
    answer({"error": text.removeprefix("error: ")})
    return exit_code


def run() -> None:
    """Run the command line of this process, or answer its shell's request for completions."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        sys.exit(shell_complete(cli, {}, NAME, COMPLETION_VARIABLE, instruction))
    try:
        set_umask()
    except InputError as error:
        print_error(f"error: {error}")
        sys.exit(error.exit_code)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
