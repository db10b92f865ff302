"""Class and options that the verbs `train`, `compare`, `probe` and `sweep` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.commands.verb import FieldVerb, experiment_field, field

FIELD_REFERENCE = (
    "Any field of the experiment is an option, nested fields with dots. docs/experiments.md describes all fields."
)


class ExperimentVerb(FieldVerb):
    """A command that accepts any field of an experiment as an option."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        settings = {"is_closed": False, "completes_fields": True, "has_dry_run": True, "epilog": FIELD_REFERENCE}
        super().__init__(*args, **{**settings, **attributes})


COMMON = (
    experiment_field(),
    field("model", "Model to fine-tune: a folder or a name on the Hugging Face Hub.", metavar="NAME"),
    field("task", "Task: classification, question-answering or causal-lm.", metavar="TASK"),
    field(
        "data.train",
        "Your own training data: a file such as .jsonl, .csv or .parquet, a folder, or a pattern.",
        metavar="FILE",
    ),
    field("compiler", "Compiler setting: none, inductor, trcomp or trcomp-off.", metavar="NAME"),
    field("batch_size", "Samples in the batch of one device.", metavar="N"),
    field("service", "Where jobs run.", metavar="local|sagemaker"),
    field("machine.instance_type", "SageMaker instance type, such as ml.g4dn.xlarge.", metavar="TYPE"),
    field("max_usd", "Budget of all jobs, in US dollars. No job starts that could exceed it.", metavar="USD"),
    field("max_billable_seconds", "Budget of all jobs, in billable instance seconds.", metavar="SECONDS"),
    field("backend_config", "File whose fields service, machine and aws replace the experiment's.", metavar="FILE"),
)

WAIT = field(
    "wait",
    "false starts the jobs and leaves them running. The same command without --wait follows them.",
    metavar="true|false",
    default="true",
    show_default=True,
)

DRY_RUN = field(
    "dry-run",
    "Show what would run, what it would cost and what would be refused, and change nothing; see the verb plan.",
    is_flag=True,
)

FORMAT = field("format", "With --dry-run: json also shows the requests.", metavar="text|json")

FAIL_ON = field(
    "fail-on",
    "Exit with code 3 if any arm (of a sweep, the winner) has one of these results, separated by commas: dearer, worse "
    "(in quality), inconclusive, failed (a job).",
    metavar="RESULTS",
)


def experiment_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the decorator that declares the common options and, after them, the verb's own."""

    def declare(function: Any) -> Any:
        for option in reversed((*COMMON, *more, DRY_RUN, FORMAT)):
            function = option(function)
        return function

    return declare
