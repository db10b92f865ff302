"""Verbs that run an experiment: `train`, `compare`, `check`, `probe` and `sweep`; and `plan` for any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from experiments.commands.models import deploy
from experiments.commands.verb import FieldVerb, experiment_field, fail_on_option, field
from training.contract.errors import InputError, nearest
from training.job.tasks import TASKS
from training.services.registry import SERVICES

FIELD_REFERENCE = (
    "Any field of the experiment is an option, nested fields with dots. docs/experiments.md describes all fields."
)


class ExperimentVerb(FieldVerb):
    """A command that accepts any field of an experiment as an option."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, is_closed=False, epilog=FIELD_REFERENCE, **attributes)


COMMON = (
    experiment_field(),
    field("model", "Model to fine-tune: a folder or a name on the Hugging Face Hub.", metavar="NAME"),
    field("task", f"Task: {', '.join(TASKS)}.", metavar="TASK"),
    field(
        "data.train",
        "Your own training data: a file such as .jsonl, .csv or .parquet, a folder, or a pattern.",
        metavar="FILE",
    ),
    field("compiler", "Compiler: none or inductor; for a script also trcomp or trcomp-off.", metavar="NAME"),
    field("batch_size", "Samples in the batch of one device.", metavar="N"),
    field("service", "Where jobs run.", metavar="|".join(SERVICES)),
    field("machine.instance_type", "SageMaker instance type, such as ml.g4dn.xlarge.", metavar="TYPE"),
    field("max_usd", "Budget of all jobs, in US dollars. No job starts that could exceed it.", metavar="USD"),
    field("max_billable_seconds", "Budget of all jobs, in billable instance seconds.", metavar="SECONDS"),
    field("backend_config", "File whose fields service, machine and aws replace the experiment's.", metavar="FILE"),
)

wait_option = field(
    "wait",
    "false starts the jobs, after any checks, and leaves them running. The same command without --wait follows them.",
    metavar="true|false",
    default="true",
    show_default=True,
)


def experiment_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the decorator that declares the common options and, after them, the verb's own."""

    def declare(function: Any) -> Any:
        for option in reversed((*COMMON, *more)):
            function = option(function)
        return function

    return declare


@click.command("train", cls=ExperimentVerb)
@experiment_options(wait_option)
def train(fields: Mapping[str, str]) -> int:
    """Train one job.

    \b
    Examples:
      trainfare train
      trainfare train --data.train reviews.jsonl --compiler inductor --batch_size 32
      trainfare train --experiment emotion --base_learning_rate 3e-5 --wait false
    """
    from experiments.running.launch import launch

    return launch("train", fields)


@click.command("compare", cls=ExperimentVerb)
@experiment_options(
    field("compare.arms", "Settings to compare: a YAML mapping by name, or a list.", metavar="ARMS"),
    field("compare.baseline", "Arm that the others are compared with, by its name or label.", metavar="NAME"),
    field("compare.repeats", "Most trainings of each arm, each with a different seed.", metavar="N"),
    wait_option,
    fail_on_option,
)
def compare(fields: Mapping[str, str]) -> int:
    """Train and repeat every arm of an experiment, and report.

    Each repeat trains with a different seed. An arm is repeated only until its verdict is clear.

    \b
    Examples:
      trainfare compare
      trainfare compare --experiment demo --compare.repeats 3
      trainfare compare --max-usd 5
      trainfare compare --fail-on dearer,worse
      trainfare compare --data.train reviews.jsonl --compare.arms '{full: {}, large: {batch_size: 64}}'
    """
    from experiments.running.launch import launch

    return launch("compare", fields)


@click.command("check", cls=ExperimentVerb)
@experiment_options()
def check(fields: Mapping[str, str]) -> int:
    """Check in five steps that settings change only the time.

    Checks all arms but the baseline. `compare` runs the same check first. Exits with 3 if an arm computes anything
    other than plain PyTorch does, and with 1 if a check failed.

    \b
    Examples:
      trainfare check
      trainfare check --experiment mine.yaml --compiler inductor
      trainfare check --service sagemaker --machine.instance_type ml.g5.xlarge
    """
    from experiments.running.launch import launch

    return launch("check", fields)


@click.command("probe", cls=ExperimentVerb)
@experiment_options(wait_option)
def probe(fields: Mapping[str, str]) -> int:
    """Estimate the time and cost of every arm.

    Each job trains until the estimate is precise enough, then stops.

    \b
    Examples:
      trainfare probe
      trainfare probe --experiment emotion --service sagemaker --machine.instance_type ml.g4dn.xlarge
    """
    from experiments.running.launch import launch

    return launch("probe", fields)


@click.command("sweep", cls=ExperimentVerb)
@experiment_options(
    field("sweep.trials", "Largest number of trials for each compiler.", metavar="N"),
    field("sweep.batch_sizes", "Batch sizes to search, as a range.", metavar="LOW..HIGH"),
    field("sweep.compilers", "Compiler settings to search, separated by commas.", metavar="NAMES"),
    fail_on_option,
)
def sweep(fields: Mapping[str, str]) -> int:
    """Search batch sizes and learning rates, and repeat the winner.

    Each compiler setting is searched separately. The same command on another machine joins the sweep.

    \b
    Examples:
      trainfare sweep --experiment demo --sweep.trials 12
      trainfare sweep --fail-on dearer,worse
      trainfare sweep --sweep.batch_sizes 8..128 --max_billable_seconds 3600
    """
    from experiments.sweeping.sweep_worker import sweep

    return sweep(fields)


PLANNED: Mapping[str, FieldVerb] = {str(each.name): each for each in (compare, train, check, probe, sweep, deploy)}
"""Verbs that start something."""


class PlanVerb(ExperimentVerb):
    """A command whose first argument may be the planned verb. All other options are the planned verb's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = ["--verb", *args] if args and not args[0].startswith("-") else args
        return super().parse_args(ctx, named)

    def checked_fields(self, verb: str, fields: Mapping[str, str]) -> Mapping[str, str]:
        """Return the fields. Raises `InputError` for a name that the planned verb does not have."""
        planned = fields.get("verb", "compare")
        if planned not in PLANNED:
            known = ", ".join(PLANNED)
            raise InputError(f"plan {planned}: the verb must be one of {known}.{nearest(planned, PLANNED)}")
        others = {name: text for name, text in fields.items() if name != "verb"}
        return {**PLANNED[planned].checked_fields(planned, others), "verb": planned}

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[VERB]", *super().collect_usage_pieces(ctx)]


@click.command("plan", cls=PlanVerb)
@field(
    "verb",
    "Verb to plan: compare, train, check, probe, sweep or deploy. It may also be the first argument.",
    metavar="VERB",
)
@experiment_field()
def plan(fields: Mapping[str, str]) -> int:
    """Show what a command would do, and change nothing.

    Shows the jobs, their settings, requests and expected cost, the most that they can cost, and everything that would
    be refused. All options are the planned verb's. Exits with 0 only if the command would start.

    \b
    Examples:
      trainfare plan
      trainfare plan --experiment mine.yaml --compare.repeats 3
      trainfare plan sweep --sweep.batch_sizes 8..128
      trainfare plan train --service sagemaker --machine.instance_type ml.g5.xlarge --format json
    """
    from experiments.dry_runs.dry_run import dry_run

    return dry_run(fields["verb"], {name: text for name, text in fields.items() if name != "verb"})
