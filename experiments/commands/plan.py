"""The verb `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from experiments.commands.experiment_options import ExperimentVerb
from experiments.commands.verb import DRY_RUN, FieldVerb, experiment_field, field
from training.contract.errors import InputError, nearest

VERBS = ("compare", "train", "probe", "sweep", "deploy")
"""Verbs that start something. The first is the default."""
EXAMPLES = (
    "trainfare plan",
    "trainfare plan --experiment mine.yaml --compare.repeats 3",
    "trainfare plan sweep --sweep.batch_sizes 8..128",
    "trainfare plan train --service sagemaker --machine.instance_type ml.g5.xlarge --format json",
)


class PlanVerb(ExperimentVerb):
    """A command whose first argument may be the planned verb. All other options are that verb's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments as fields. Raises `InputError`."""
        named = ["--verb", *args] if args and not args[0].startswith("-") else args
        return super().parse_args(ctx, named)

    def checked_fields(self, verb: str, fields: Mapping[str, str]) -> Mapping[str, str]:
        """Return the fields. Raises `InputError` for a name that the planned verb does not have."""
        planned = fields.get("verb", VERBS[0])
        if planned not in VERBS:
            raise InputError(f"plan {planned}: the verb must be one of {', '.join(VERBS)}.{nearest(planned, VERBS)}")
        command: FieldVerb = import_module(f"experiments.commands.{planned}").command
        others = {name: text for name, text in fields.items() if name != "verb"}
        return {**command.checked_fields(planned, others), "verb": planned}

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage with the verb first."""
        return ["[VERB]", *super().collect_usage_pieces(ctx)]


@click.command(cls=PlanVerb, has_dry_run=False, examples=EXAMPLES)
@field(
    "verb", "Verb to plan: compare, train, probe, sweep or deploy. It may also be the first argument.", metavar="VERB"
)
@experiment_field()
@field("format", "json also shows the requests, exactly as they would be sent.", metavar="text|json")
def command(fields: Mapping[str, str]) -> int:
    """Show what a command would do, and change nothing.

    Shows the jobs, their settings, requests and expected cost, the most that they can cost, and everything that would
    be refused. All options are those of the planned verb. Exits with 0 only if the command would start.
    """
    from experiments.dry_runs.dry_run import dry_run

    return dry_run(fields["verb"], {name: text for name, text in fields.items() if name not in ("verb", DRY_RUN)})
