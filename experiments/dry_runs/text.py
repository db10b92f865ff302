"""A plan in a terminal, readable at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from experiments.dry_runs.cost_text import arms_by, cost_definitions
from experiments.dry_runs.endpoint_text import endpoint_definitions
from experiments.dry_runs.search_plan import search_definitions
from experiments.planning.command_plan import CommandPlan, InputPlan, JobEntry
from experiments.planning.expected_cost import ExpectedCost
from reports.formats.terminal import print_blocks
from reports.model.numbers import NONE, counted, durations, figure, joined, money, rate
from reports.model.report import Block, Column, Definition, Definitions, Table, Text, build_table
from training.contract.budget import Amount
from training.contract.plain_text import size_text
from training.services.sagemaker.instance_types import described

WIDTH = 80
MAX_ROUNDS = 12
"""Rounds that are listed one by one."""
SIZE_COLUMNS: tuple[Column[JobEntry], ...] = (
    Column("steps", "steps", "", lambda job: f"{job.size.steps:,}" if job.size else NONE),
    Column("samples", "samples", "", lambda job: f"{job.size.samples:,}" if job.size else NONE),
    Column("tokens", "tokens", "", lambda job: _tokens(job.size.tokens) if job.size else NONE),
)
"""Work of a job. That of a script is not known before it runs."""


def print_plan(plan: CommandPlan) -> None:
    """Print the plan."""
    print_blocks(blocks(plan), width=WIDTH)


def blocks(plan: CommandPlan) -> Iterator[Block]:
    """Yield the blocks of a plan: headline, arms, everything about the jobs, refusals."""
    yield Text(headline(plan), "strong")
    if plan.jobs:
        yield arms_table(plan)
    yield Definitions(tuple(_definitions(plan)))
    yield Text("")
    if plan.refusals:
        yield Text(f"It would not start: {counted(len(plan.refusals), 'error')}.", "strong")
        numbered = enumerate(plan.refusals, start=1)
        yield Definitions(tuple(Definition(f"{number}.", each.message) for number, each in numbered))
    else:
        yield Text(f"It would start. `trainfare {plan.verb}` with the same options runs it.", "strong")
    yield Text("Nothing was started, staged, uploaded or recorded.", "muted")


def headline(plan: CommandPlan) -> str:
    """Return the first sentence: the command, the service and the number of jobs."""
    where = "this machine" if plan.service == "local" else "Amazon SageMaker"
    subject = f"Plan of {plan.verb} {plan.name}, on {where}"
    if plan.search:
        return f"{subject}: at most {counted(plan.search.max_jobs, 'job')}."
    if not plan.jobs:
        return f"{subject}."
    count = sum(not job.planned.is_again for job in plan.jobs)
    arms = len({job.planned.arm for job in plan.jobs})
    most = "at most " if plan.design and len(plan.design.looks) > 1 else ""
    return f"{subject}: {most}{counted(count, 'job')}{f' of {arms} arms' if arms > 1 else ''}."


def arms_table(plan: CommandPlan) -> Table:
    """Return the table with a row for each arm, or for each job that is known of a sweep."""
    first: dict[tuple[str, str | None], JobEntry] = {}
    for job in plan.jobs:
        first.setdefault((job.planned.arm, job.planned.tags.get("platform.role")), job)
    rows = [job for job in first.values() if not job.planned.is_again]
    is_global = any(job.experiment.global_batch_size != job.experiment.batch_size for job in rows)
    has_price = any(job.planned.price for job in rows)
    columns: list[Column[JobEntry]] = [
        Column("arm", "job", "", lambda job: job.planned.arm if plan.search is None else job.planned.run_name),
        Column("batch size", "batch", "", lambda job: f"{job.experiment.batch_size:,}"),
        *(
            [Column("global batch", "global\nbatch", "", lambda job: f"{job.experiment.global_batch_size:,}")]
            if is_global
            else []
        ),
        Column("learning rate", "rate", "", lambda job: rate(job.experiment.optimiser.learning_rate)),
        *(SIZE_COLUMNS if any(job.size for job in rows) else ()),
        Column("expected", "expected", "", lambda job: durations(job.expected.seconds)[0] if job.expected else NONE),
        *([Column("expected USD", "expected\nUSD", "", lambda job: _usd(job.expected))] if has_price else []),
        Column("at most", "at most", "", lambda job: durations(job.worst.seconds)[0]),
        *([Column("at most, USD", "at most\nUSD", "", lambda job: _usd(job.worst))] if has_price else []),
    ]
    return build_table("The arms", columns, rows)


def _usd(cost: ExpectedCost | Amount | None) -> str:
    return NONE if cost is None or cost.usd is None else money(cost.usd)


def _tokens(count: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{figure(count / size)} {unit}"
    return str(count)


def _definitions(plan: CommandPlan) -> Iterator[Definition]:
    if plan.resumes:
        yield Definition("Resumes", f"group {plan.resumes}: jobs that ended are kept, and running ones are followed")
    for inputs in plan.inputs:
        yield Definition("Data" if inputs.rows else "Script", _input_text(plan, inputs))
    if plan.endpoint:
        yield from endpoint_definitions(plan.endpoint)
    if plan.jobs:
        machines = _with_arms(arms_by(plan.jobs, _machine))
        yield Definition("Machine", "\n".join([*machines, f"{counted(plan.parallel, 'job')} at a time"]))
    if images := arms_by(plan.jobs, lambda job: job.planned.spec.image.removeprefix("local")):
        yield Definition("Image", "\n".join(_with_arms(images)))
    if plan.uploads or plan.new_bucket:
        yield Definition("Uploads", _uploads(plan))
    for line in plan.jobs[0].runtime if plan.jobs else ():  # the other jobs differ in their arguments at most
        term, _, text = line.partition(": ")
        yield Definition(term, text)
    if plan.search:
        yield from search_definitions(plan.search)
    elif len(plan.jobs) > 1:
        yield Definition("Order", "\n".join(_rounds(plan.jobs)))
    if plan.design and len(plan.design.looks) > 1:
        looks = joined([str(look) for look in plan.design.looks])
        repeats = "repeats of the winner" if plan.search else "repeats"
        yield Definition("Looks", f"after {looks} {repeats}; an arm stops once its cost and quality are decided")
    if plan.quality:
        yield Definition("Quality", plan.quality)
    yield from cost_definitions(plan)
    for note in plan.notes:
        yield Definition("Note", note.removeprefix("Note: "))


def _input_text(plan: CommandPlan, inputs: InputPlan) -> str:
    arms = "" if len(plan.inputs) == 1 else f" ({joined(list(inputs.arms))})"
    state = "staged already" if inputs.is_staged else "not staged yet"
    if not inputs.rows:
        return f"{inputs.source}{arms}"
    rows = inputs.sample_rows
    estimate = [] if rows is None else [f"estimated from the first {rows:,} rows and the size of the file"]
    return "\n".join([f"{inputs.source}{arms}, {state}", *inputs.lines, *estimate])


def _with_arms(texts: dict[str, str]) -> list[str]:
    """Return the texts about jobs, with their arms if there are several texts."""
    return [text if len(texts) == 1 else f"{text}: {arms}" for text, arms in texts.items()]


def _machine(job: JobEntry) -> str:
    spec, price = job.planned.spec, job.planned.price
    if spec.instance_type == "local":
        name, cost = "this machine", ""
    else:
        name = f"{spec.instance_count} x {spec.instance_type} ({described(spec.instance_type)})"
        cost = ", price unknown"
    if price is not None:
        cost = f", {price.usd_per_hour:.4g} USD per hour each ({price.source}, {price.date})"
    spares = f" (or {', '.join(spec.fallback_instance_types)})" if spec.fallback_instance_types else ""
    cores = f", {counted(int(limit), 'core')}" if (limit := spec.environment.get("TRAINFARE_CORES")) else ""
    devices = f", {spec.devices:,} processes each" if spec.devices > 1 else ""
    return f"{name}{spares}{cores}{devices}{', spot' if spec.spot else ''}{cost}"


def _uploads(plan: CommandPlan) -> str:
    lines = [f"{size_text(size)} to {uri}" for uri, size in plan.uploads.items()]
    bucket = [f"bucket {plan.new_bucket} does not exist yet and would be created"] if plan.new_bucket else []
    return "\n".join([*bucket, *lines])


def _rounds(jobs: Sequence[JobEntry]) -> Iterator[str]:
    """Yield a line for each repeat with its seed and its jobs, in the order of their starts."""
    rounds = [list(each) for _, each in groupby(jobs, key=lambda job: (job.planned.is_again, job.planned.repeat))]
    first = [each for each in rounds if not each[0].planned.is_again]
    for each in first[:MAX_ROUNDS]:
        labels = ", ".join(job.planned.arm for job in each)
        yield f"repeat {each[0].planned.repeat + 1}, seed {each[0].seed}: {labels}"
    if len(first) > MAX_ROUNDS:
        yield f"and {len(first) - MAX_ROUNDS} more repeats, up to seed {first[-1][0].seed}"
    if len(first) < len(rounds):
        yield "then each job that others disturbed, once more"
