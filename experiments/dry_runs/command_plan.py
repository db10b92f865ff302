"""Plan of a whole command: what would run, what it would cost, and what would be refused. Pure.

It is printed in a terminal, readable at 80 columns, or as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from experiments.planning.costs import ExpectedCost, JobSize, WorstCase, worst_case_of, worst_case_of_job
from experiments.planning.memory_plan import MemoryPlan, memory_fields, memory_text, memory_warning
from experiments.planning.plan import CHECK_STEPS
from experiments.schema.experiment import Experiment
from experiments.schema.fields import AutoBatchSize
from judging.design import Design
from models.endpoints.protocol import DeploymentPlan, EndpointSpec
from reports.formats.terminal import print_blocks
from reports.model.numbers import durations, figure, joined, money, rate
from reports.model.report import Block, Column, Definition, Definitions, Table, Text, build_table
from reports.probe.spot import spot_lines
from sweeps.search_space import linear_note
from tracking.groups.plan_file import json_value
from tracking.groups.planned_job import CALIBRATION, PlannedJob
from tracking.recorded.recorded_job import SpotEstimate
from training.contract.job_spec import NOT_CHOSEN
from training.contract.plain_text import counted, size_text
from training.contract.price import Price, instances_of
from training.contract.service import Request, Traits
from training.services.budget import GRACE_SECONDS, UPLOAD_SECONDS, Amount
from training.services.registry import DEFAULT, service_name, traits_of
from training.services.sagemaker.machines import described

UNKNOWN = "unknown: no earlier job or probe of this setting in MLflow; `trainfare probe` measures it"
UNKNOWN_SCRIPT = "unknown: no earlier job of this setting in MLflow; run `trainfare train` once, and plans use its time"
NEARLY = 0.9
"""Share of the time limit from which a job is expected to reach it: times of equal jobs differ by a tenth."""
ACTIONS = {
    "create": "is created",
    "keep": "serves this model already, and stays as it is",
}


@dataclass(frozen=True, kw_only=True)
class JobEntry:
    planned: PlannedJob
    experiment: Experiment
    size: JobSize | None
    """Work; None if it is not known before the job runs."""
    expected: ExpectedCost | None
    """Expected cost; None if it is not known."""
    request: Request
    spot: SpotEstimate | None = None
    """The training on spot capacity; None if it is not known, and on this machine."""
    runtime: tuple[str, ...] = ()
    """Lines that describe what a script gets when it starts: command, folders, variables and packages."""
    memory: MemoryPlan | None = None
    """Memory on each device; None if it cannot be estimated."""

    @property
    def is_calibration(self) -> bool:
        return self.planned.tags.get("platform.role") == CALIBRATION

    @property
    def has_size(self) -> bool:
        """False if the batch size is still to be chosen, on which steps, learning rate and time depend."""
        return not isinstance(self.experiment.batch_size, AutoBatchSize)

    @property
    def seed(self) -> int:
        seed = self.planned.spec.hyperparameters.get("seed")
        return seed if isinstance(seed, int) else self.experiment.seed + self.planned.repeat

    @property
    def worst(self) -> Amount:
        """Cost if the job runs to its time limit and through its grace."""
        return worst_case_of_job(self.planned)


@dataclass(frozen=True, kw_only=True)
class EndpointPlan:
    spec: EndpointSpec
    model: str
    """Folder, run or registered version."""
    price: Price | None
    """Price of one machine; None if it is unknown, and on this machine."""
    deployment: DeploymentPlan


@dataclass(frozen=True, kw_only=True)
class CommandPlan:
    verb: str
    name: str
    """Name of the experiment, or of the endpoint."""
    service: str = DEFAULT
    resumes: str | None = None
    """Open group that the command would continue."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Errors with which the command would end, in the order in which it would find them, and their exit codes."""
    notes: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    """Data of some arms, or their script with its channels, by the names in JSON: see `dry_run.input_plan`."""
    jobs: tuple[JobEntry, ...] = ()
    """Jobs in the order of their starts; for a sweep, those that are known before it starts."""
    checks: tuple[JobEntry, ...] = ()
    """Checks before the trainings of a comparison. Those of `check` are `jobs`."""
    parallel: int = 1
    design: Design | None = None
    quality: str = ""
    """Measure of quality of a comparison and the accepted loss, in words; empty for other verbs."""
    uploads: Mapping[str, int] = field(default_factory=dict)
    """Size in bytes of everything that would be uploaded, by its URI."""
    new_bucket: str | None = None
    worst: WorstCase | None = None
    """Most that all jobs can cost; None if it is not known."""
    budget: tuple[str, ...] = ()
    """Sentences about the budget and the jobs that certainly fit; empty without a budget."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """Space, objective and phases of a sweep, by the names in JSON: see `dry_run.search_plan`. Empty for others."""
    endpoint: EndpointPlan | None = None

    @property
    def exit_code(self) -> int:
        """0 if the command would start, else the exit code with which it would end."""
        return next(iter(self.refusals.values()), 0)

    @property
    def first_jobs(self) -> tuple[JobEntry, ...]:
        """Jobs that run whatever the looks decide: without later repeats and without jobs that run again."""
        first = self.design.looks[0] if self.design else None
        return tuple(job for job in self.every_repeat if first is None or job.planned.repeat < first)

    @property
    def every_repeat(self) -> tuple[JobEntry, ...]:
        """Jobs of `train` or `compare` without calibrations and without jobs that run again."""
        return tuple(job for job in self.jobs if not (job.planned.is_again or job.is_calibration))


def print_plan(plan: CommandPlan) -> None:
    print_blocks(blocks(plan), width=80)


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
        yield Definitions(tuple(Definition(f"{number}.", message) for number, message in numbered))
    else:
        yield Text(f"It would start. `trainfare {plan.verb}` with the same options runs it.", "strong")
    yield Text("Nothing was started, staged, uploaded or recorded.", "muted")


def headline(plan: CommandPlan) -> str:
    """Return the first sentence: the command, the service and the number of jobs."""
    subject = f"Plan of {plan.verb} {plan.name}, on {traits_of(plan.service).label}"
    if plan.search:
        return f"{subject}: at most {counted(plan.search['max_jobs'], 'job')}."
    if not plan.jobs:
        return f"{subject}."
    count = len(plan.every_repeat)
    arms = len({job.planned.arm for job in plan.every_repeat})
    most = "at most " if plan.design and len(plan.design.looks) > 1 else ""
    calibrations = sum(job.is_calibration for job in plan.jobs)
    first = f", after {counted(calibrations, 'calibration')}" if calibrations else ""
    return f"{subject}: {most}{counted(count, 'job')}{f' of {arms} arms' if arms > 1 else ''}{first}."


def arms_table(plan: CommandPlan) -> Table:
    """Return the table with a row for each arm, or for each job that is known of a sweep."""
    first: dict[tuple[str, str | None], JobEntry] = {}
    for job in plan.jobs:
        first.setdefault((job.planned.arm, job.planned.tags.get("platform.role")), job)
    rows = [job for job in first.values() if not job.planned.is_again and (plan.search or not job.is_calibration)]
    is_global = any(job.experiment.global_batch_size != job.experiment.batch_size for job in rows if job.has_size)
    columns: list[Column[JobEntry]] = [
        Column("arm", lambda job: job.planned.arm if not plan.search else job.planned.run_name, head="job"),
        Column("batch size", lambda job: job.experiment.batch_size if job.has_size else "auto", head="batch"),
        Column("global batch", lambda job: job.experiment.global_batch_size if is_global else None, is_optional=True),
        Column("learning rate", _rate_of, head="rate", text=rate),
        Column("steps", lambda job: job.size.steps if job.size else None, is_optional=True),
        Column("samples", lambda job: job.size.samples if job.size else None, is_optional=True),
        Column("tokens", lambda job: _tokens(job.size.tokens) if job.size else None, is_optional=True),
        Column("expected", lambda job: durations(job.expected.seconds)[0] if job.expected else None),
        Column("expected USD", lambda job: _usd(job.expected), text=money, is_optional=True),
        Column("at most", lambda job: durations(job.worst.seconds)[0], head="at most"),
        Column("at most, USD", lambda job: _usd(job.worst), head="at most\nUSD", text=money, is_optional=True),
    ]
    return build_table("The arms", columns, rows)


def _rate_of(job: JobEntry) -> float | None:
    return job.experiment.learning_rate if job.has_size else None


def _usd(cost: ExpectedCost | Amount | None) -> float | None:
    return cost.usd if cost else None


def _tokens(count: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{figure(count / size)} {unit}"
    return str(count)


def _definitions(plan: CommandPlan) -> Iterator[Definition]:
    if plan.resumes:
        yield Definition("Resumes", f"group {plan.resumes}: jobs that ended are kept, and running ones are followed")
    for inputs in plan.inputs:
        arms = "" if len(plan.inputs) == 1 else f" ({joined(inputs['arms'])})"
        if not inputs["rows"]:
            yield Definition("Script", f"{inputs['source']}{arms}")
            continue
        state, rows = "staged already" if inputs["is_staged"] else "not staged yet", inputs["sample_rows"]
        estimate = [] if rows is None else [f"estimated from the first {rows:,} rows and the size of the file"]
        yield Definition("Data", "\n".join([f"{inputs['source']}{arms}, {state}", *inputs["lines"], *estimate]))
    if plan.endpoint:
        yield from endpoint_definitions(plan.endpoint, traits_of(plan.service))
    if plan.jobs:
        yield Definition("Machine", f"{_by_arm(plan, _machine)}\n{counted(plan.parallel, 'job')} at a time")
    if memory := _by_arm(plan, lambda job: memory_text(job.memory) if job.memory else ""):
        yield Definition("Memory", memory)
    if images := _by_arm(plan, lambda job: job.planned.spec.image.removeprefix(NOT_CHOSEN)):
        yield Definition("Image", images)
    if plan.uploads or plan.new_bucket:
        bucket = [f"bucket {plan.new_bucket} does not exist yet and would be created"] if plan.new_bucket else []
        lines = [f"{size_text(size)} to {uri}" for uri, size in plan.uploads.items()]
        yield Definition("Uploads", "\n".join([*bucket, *lines]))
    for line in plan.jobs[0].runtime if plan.jobs else ():  # the other jobs differ in their arguments at most
        term, _, text = line.partition(": ")
        yield Definition(term, text)
    if plan.search:
        yield from search_definitions(plan.search)
    else:
        if sizes := _by_arm(plan, lambda job: _choice(job) if job.is_calibration else ""):
            yield Definition("Batch size", sizes)
        if plan.checks:
            most = durations(max(job.planned.spec.max_run_seconds for job in plan.checks))[0]
            jobs = counted(len(plan.checks), "job")
            arms = joined([job.planned.arm.removesuffix(", check") for job in plan.checks])
            yield Definition("Check", f"{arms}, first, in {CHECK_STEPS} steps: {jobs} of at most {most}")
        if len(plan.every_repeat) > 1:
            yield Definition("Order", _order([job for job in plan.jobs if not job.is_calibration]))
    if plan.design and len(plan.design.looks) > 1:
        looks = joined([str(look) for look in plan.design.looks])
        repeats = "repeats of the winner" if plan.search else "repeats"
        yield Definition("Looks", f"after {looks} {repeats}; an arm stops once its cost and quality are decided")
    if plan.quality:
        yield Definition("Quality", plan.quality)
    yield from cost_definitions(plan)
    for note in (*_scaling(plan), *plan.notes):
        yield Definition("Note", note.removeprefix("Note: "))


def _choice(job: JobEntry) -> str:
    """Return the sizes of a calibration, and its longest time."""
    sizes = str(job.planned.spec.hyperparameters["calibration_batch_sizes"]).replace(",", ", ")
    most = durations(job.planned.spec.max_run_seconds)[0]
    return f"chosen from {sizes} by a job of at most {most}, before the others"


def _scaling(plan: CommandPlan) -> list[str]:
    jobs = sorted(plan.jobs, key=lambda job: not job.planned.is_baseline)
    known = [job for job in jobs if job.experiment.script is None and job.has_size]
    settings = {f"“{job.planned.arm}”": job.experiment for job in known}
    if plan.search and settings:
        size = max(plan.search["batch_sizes"])
        settings[f"batch {size}"] = jobs[0].experiment.model_copy(update={"batch_size": size})
    return linear_note({label: (each.global_batch_size, each.learning_rate) for label, each in settings.items()})


def _by_arm(plan: CommandPlan, text_of: Callable[[JobEntry], str]) -> str:
    """Return the texts about jobs, each with its arms unless all jobs have the same. An empty text is left out."""
    arms: dict[str, dict[str, None]] = {}
    for job in plan.jobs:
        arms.setdefault(text_of(job), {})[job.planned.arm] = None
    if len(arms) <= 1:
        return next(iter(arms), "")
    return "\n".join(f"{joined(list(labels))}: {text}" for text, labels in arms.items() if text)


def _machine(job: JobEntry) -> str:
    spec, price = job.planned.spec, job.planned.price
    traits = traits_of(service_name(spec.instance_type))
    name = traits.label
    if not traits.runs_here:
        kinds = instances_of(spec.resources).items()
        texts = {kind: f" ({described(kind)})" if traits.instance_type is None else "" for kind, _ in kinds}
        name = " and ".join(f"{number} x {kind}{texts[kind]}" for kind, number in kinds)
    cost = ", price unknown" if traits.has_prices else ""
    if price is not None:
        each = "each" if len(instances_of(spec.resources)) == 1 else "each on average"
        cost = f", {price.usd_per_hour:.4g} USD per hour {each} ({price.source}, {price.date})"
    spares = f" (or {', '.join(spec.fallback_instance_types)})" if spec.fallback_instance_types else ""
    cores = f", {counted(int(limit), 'core')}" if (limit := spec.environment.get("TRAINFARE_CORES")) else ""
    devices = f", {spec.devices:,} processes each" if spec.devices > 1 else ""
    return f"{name}{spares}{cores}{devices}{', spot' if spec.spot else ''}{cost}"


def _order(jobs: Sequence[JobEntry]) -> str:
    """Return the rounds with their seeds. The list of jobs, as JSON, has the order within each."""
    seeds = [job.seed for job in jobs]
    rounds = counted(1 + max(job.planned.repeat for job in jobs), "round")
    again = ", then each disturbed job once more" if any(job.planned.is_again for job in jobs) else ""
    return f"{rounds} of one job of each arm, in a changing order, with seeds {min(seeds)} to {max(seeds)}{again}"


def search_definitions(search: Mapping[str, Any]) -> Iterator[Definition]:
    """Yield the objective, the space, and the order of the jobs."""
    yield Definition("Objective", search["objective"])
    sizes = ", ".join(map(str, search["batch_sizes"]))
    rates = (
        ""
        if len(search["multipliers"]) == 1
        else f"; rate x {', '.join(f'{each:g}' for each in search['multipliers'])}"
    )
    rules = f"; rate scaled by {joined(search['scalings'])}" if search["scalings"] else ""
    rules += "".join(f"; {name} {', '.join(map(str, values))}" for name, values in search["hyperparameters"].items())
    points = counted(search["points"], "point")
    yield Definition("Space", f"batch {sizes}{rates}{rules}: {points} for each of {joined(search['compilers'])}")
    yield Definition("Order", "\n".join(_phases(search)))


def _phases(search: Mapping[str, Any]) -> Iterator[str]:
    if search["calibration_seconds"]:
        yield f"calibration of each compiler: {figure(search['calibration_seconds'])} s for each batch size"
    first = f", first {joined(search['first_points'])}" if search["first_points"] else ""
    yield f"at most {counted(search['trials'], 'trial')} of each compiler{first}; sampler {search['sampler']}"
    if search["finalists"]:
        yield f"a second training of at most {search['finalists']} settings of each compiler"
    if search["repeats"]:
        yield f"at most {counted(search['repeats'], 'repeat')} of the winner and of each control"


def endpoint_definitions(endpoint: EndpointPlan, traits: Traits) -> Iterator[Definition]:
    """Yield the model, the machine, the effect, the cost and the requests."""
    spec, deployment, price = endpoint.spec, endpoint.deployment, endpoint.price
    yield Definition("Endpoint", f"{spec.name} {ACTIONS[deployment.action]}")
    yield Definition("Model", endpoint.model + ("" if spec.model.is_dir() else ", not fetched yet"))
    yield Definition("Machine", traits.label if traits.runs_here else f"{spec.machines} x {spec.machine}")
    if deployment.image:
        yield Definition("Image", deployment.image)
    if traits.has_prices and price:
        per_hour = f"{price.usd_per_hour * spec.machines:.4g} USD per hour ({price.source}, {price.date})"
        yield Definition("Cost", f"{per_hour}, until it is undeployed")
    elif traits.has_prices:
        yield Definition("Cost", "unknown: the price of the instance type is unknown")
    lines = []
    for operation, request in deployment.requests:  # each with the name of what it makes
        names = (str(text) for name, text in request.items() if name.endswith("Name"))
        lines.append(f"{operation} {next(names, '')}".rstrip())
    if lines:
        yield Definition("Requests", "\n".join(lines))


def cost_definitions(plan: CommandPlan) -> Iterator[Definition]:
    """Yield the expected cost with its source, and the worst case with its rule."""
    if plan.jobs and plan.verb != "check":
        yield Definition("Expected", "\n".join(_expected(plan)))
    for warn in (_late, lambda job: memory_warning(job.memory) if job.memory else ""):
        if text := _by_arm(plan, warn):
            yield Definition("Warning", text)
    if on_spot := _by_arm(plan, lambda job: "\n".join(spot_lines(job.spot)) if job.spot else ""):
        yield Definition("On spot", on_spot)
    if plan.worst:
        yield Definition("At most", "\n".join(_worst(plan, plan.worst)))
    if plan.budget:
        yield Definition("Budget", "\n".join(each.removeprefix("Budget of ") for each in plan.budget))


def _expected(plan: CommandPlan) -> Iterator[str]:
    if plan.search:
        if (expected := expected_of_search(plan)) is None:
            yield UNKNOWN_SCRIPT if any(job.planned.script for job in plan.jobs) else UNKNOWN
            return
        count, cost = expected
        yield f"{_cost(cost)} for all {counted(count, 'training run')}, if none is skipped"
        yield "and each takes as long as the first one with the same compiler setting"
        if calibrations := sum(job.is_calibration for job in plan.jobs):
            yield f"{counted(calibrations, 'calibration')} not included"
        yield f"from {cost.source}"
        return
    first, every = plan.first_jobs, plan.every_repeat
    if all(job.expected for job in every):
        up_to_look = f"{_total(first)} up to the first look, " if len(first) < len(every) else ""
        yield f"{up_to_look}{_total(every)}{' in all' if up_to_look else ''}"
    reason = UNKNOWN_SCRIPT if any(job.planned.script for job in plan.jobs) else UNKNOWN
    sized = "unknown until the batch size is chosen"
    yield _by_arm(
        plan, lambda job: f"from {job.expected.source}" if job.expected else reason if job.has_size else sized
    )


def expected_of_search(plan: CommandPlan) -> tuple[int, ExpectedCost] | None:
    """Return the most trainings of a sweep, and their cost if each costs as much as its compiler's first training.

    None if the cost of a first training is unknown. Calibrations are not counted.
    """
    first = [job for job in plan.jobs if not job.is_calibration]
    cost = expected_total(first)
    if cost is None or not plan.search:
        return None
    trainings = plan.search["max_jobs"] - (len(plan.jobs) - len(first))
    factor = trainings / len(first)
    return trainings, replace(cost, seconds=cost.seconds * factor, usd=cost.usd and cost.usd * factor)


def _total(jobs: Sequence[JobEntry]) -> str:
    cost = expected_total(jobs)
    return f"{_cost(cost)} ({counted(len(jobs), 'job')})" if cost else UNKNOWN


def expected_total(jobs: Sequence[JobEntry]) -> ExpectedCost | None:
    """Return the expected cost of the jobs, without those that run again; None if any is unknown."""
    costs = [job.expected for job in jobs if not job.planned.is_again]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None
    usd = None if any(cost.usd is None for cost in known) else sum(cost.usd or 0.0 for cost in known)
    sources = list(dict.fromkeys(cost.source for cost in known))
    return ExpectedCost(seconds=sum(cost.seconds for cost in known), usd=usd, source=joined(sources))


def _cost(cost: ExpectedCost) -> str:
    return durations(cost.seconds)[0] + ("" if cost.usd is None else f", {money(cost.usd)} USD")


def _late(job: JobEntry) -> str:
    """Return a warning about the time limit if the job is expected to reach it, or an empty text."""
    spec = job.planned.spec
    if job.expected is None or job.expected.seconds / spec.billed_instances < NEARLY * spec.max_run_seconds:
        return ""
    limit = durations(spec.max_run_seconds)[0]
    return (
        f"the expected time is close to machine.max_run_seconds ({limit}) or above it, and a job that reaches it is "
        "stopped"
    )


def _worst(plan: CommandPlan, worst: WorstCase) -> Iterator[str]:
    again = f", {worst.again} of them only if a job is disturbed" if worst.again else ""
    yield f"{_amount(worst.amount)} ({counted(worst.jobs + worst.again, 'job')}{again})"
    if not plan.search and plan.design and len(plan.design.looks) > 1:
        look = plan.design.looks[0]
        first = worst_case_of([job.planned for job in (*plan.checks, *plan.jobs) if job.planned.repeat < look])
        yield f"{_amount(first.amount)} up to the first look, after {look} repeats"
    if limits := dict.fromkeys(durations(job.planned.spec.max_run_seconds)[0] for job in plan.jobs):
        most = f"{GRACE_SECONDS + UPLOAD_SECONDS:.0f} s"
        yield f"each job: at most {joined(list(limits))} (machine.max_run_seconds), and up to {most} to stop and upload"


def _amount(amount: Amount) -> str:
    dollars = f", {money(amount.usd)} USD" if amount.usd else ""
    return f"{durations(amount.seconds)[0]} of billed time{dollars}"


def summary(plan: CommandPlan) -> dict[str, Any]:
    """Return the plan as strict JSON values."""
    fields = {
        "verb": plan.verb,
        "name": plan.name,
        "service": plan.service,
        "would_start": plan.exit_code == 0,
        "exit_code": plan.exit_code,
        "refusals": [{"message": message, "exit_code": code} for message, code in plan.refusals.items()],
        "notes": plan.notes,
        "resumes": plan.resumes,
        "inputs": plan.inputs,
        "uploads": [{"uri": uri, "bytes": size} for uri, size in plan.uploads.items()],
        "new_bucket": plan.new_bucket,
        "looks": plan.design and plan.design.looks,
        "quality": plan.quality or None,
        "parallel": plan.parallel,
        "expected": _expected_fields(plan),
        "worst_case": plan.worst and _amount_fields(plan.worst.amount),
        "budget": plan.budget,
        "jobs": [_job_fields(each) for each in (*plan.checks, *plan.jobs)],
        "search": plan.search or None,
        "endpoint": plan.endpoint and _endpoint_fields(plan.service, plan.endpoint),
    }
    return dict(json_value(fields))


def _job_fields(entry: JobEntry) -> dict[str, Any]:
    planned = entry.planned
    return {
        "name": planned.spec.name,
        "title": planned.run_name,
        "arm": planned.arm,
        "repeat": planned.repeat,
        "role": planned.tags.get("platform.role"),
        "seed": entry.seed,
        "batch_size": entry.experiment.batch_size if entry.has_size else "auto",
        "global_batch_size": entry.experiment.global_batch_size if entry.has_size else None,
        "learning_rate": _rate_of(entry),
        "size": entry.size and asdict(entry.size),
        "price": planned.price and asdict(planned.price),
        "expected": entry.expected and asdict(entry.expected),
        "spot": entry.spot and asdict(entry.spot),
        "worst_case": _amount_fields(entry.worst),
        "memory": entry.memory and memory_fields(entry.memory),
        "runtime": entry.runtime,
        "request": entry.request,
    }


def _endpoint_fields(service: str, endpoint: EndpointPlan) -> dict[str, Any]:
    spec, deployment, price = endpoint.spec, endpoint.deployment, endpoint.price
    return {
        "name": spec.name,
        "service": service,
        "model": endpoint.model,
        "is_fetched": spec.model.is_dir(),
        "machine": spec.machine,
        "machines": spec.machines,
        "image": deployment.image,
        "action": deployment.action,
        "usd_per_hour": price and price.usd_per_hour * spec.machines,
        "price_source": f"{price.source}, {price.date}" if price else "",
        "requests": deployment.requests,
    }


def _amount_fields(amount: Amount) -> dict[str, Any]:
    return {"billable_instance_seconds": amount.seconds, "usd": amount.usd}


def _expected_fields(plan: CommandPlan) -> dict[str, Any]:
    """Return the expected cost up to the first look and of all jobs; None where any job's is unknown."""
    search = expected_of_search(plan)
    least = None if plan.search else expected_total(plan.first_jobs)
    most = (search and search[1]) if plan.search else expected_total(plan.jobs)
    return {"at_least": least and asdict(least), "at_most": most and asdict(most)}
