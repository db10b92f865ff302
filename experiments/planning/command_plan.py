"""Plan of a whole command, as data: what would run, what it would cost, and what would be refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.planning.budgets import WorstCase, worst_case_of_job
from experiments.planning.expected_cost import ExpectedCost, JobSize
from experiments.schema.experiment import Experiment
from judging.design import Design
from reports.probe.spot import SpotEstimate
from tracking.groups.planned_job import PlannedJob
from training.contract.service import Request
from training.services.budget import Amount
from training.services.registry import DEFAULT


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Error with which the command would end."""

    message: str
    exit_code: int
    """Exit code of the command."""


@dataclass(frozen=True, kw_only=True)
class InputPlan:
    """Data of some arms, or their script with its channels."""

    source: str
    """Origin."""
    key: str
    """Key of the staged data, or of the script and its channels."""
    arms: tuple[str, ...]
    """Labels of the arms that use it."""
    is_staged: bool
    """True if it is staged already."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of each channel; empty for a script."""
    tokens: Mapping[str, float] = field(default_factory=dict)
    """Tokens of a training row: mean, median, p95 and max; empty for a script."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Description of the data: channels, classes, repeated rows and samples; empty for a script."""
    lines: tuple[str, ...] = ()
    """The description in a few lines."""
    sample_rows: int | None = None
    """Rows of the data from which rows and tokens are estimated; None if they are exact."""


@dataclass(frozen=True, kw_only=True)
class JobEntry:
    """One job of a plan."""

    planned: PlannedJob
    experiment: Experiment
    """Experiment of the job's arm."""
    size: JobSize | None
    """Work; None if it is not known before the job runs."""
    expected: ExpectedCost | None
    """Expected cost; None if it is not known."""
    request: Request
    """The request for the service."""
    spot: SpotEstimate | None = None
    """The training on spot capacity; None if it is not known, and on this machine."""
    runtime: tuple[str, ...] = ()
    """Lines that describe what a script gets when it starts: command, folders, variables and packages."""
    estimated: tuple[str, ...] = ()
    """Fields of the request that are known only once the data is staged."""

    @property
    def seed(self) -> int:
        """Seed of the training."""
        seed = self.planned.spec.hyperparameters.get("seed")
        return seed if isinstance(seed, int) else self.experiment.seed + self.planned.repeat

    @property
    def worst(self) -> Amount:
        """Cost if the job runs to its time limit and through its grace."""
        return worst_case_of_job(self.planned)


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """Search of a sweep."""

    compilers: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    multipliers: tuple[float, ...]
    """Factors on the scaled learning rate."""
    objective: str
    """Objective, such as `billable_seconds until eval_accuracy 0.9`."""
    sampler: str
    """Method that chooses the next point, with `auto` resolved."""
    first_points: tuple[str, ...]
    """Points that are tried first, as far as they do not depend on results."""
    trials: int
    """Most trials of each compiler."""
    calibration_seconds: float
    """Seconds for which each batch size is timed first; 0 without a calibration."""
    finalists: int
    """Most settings of each compiler that train a second time."""
    repeats: int
    """Most repeats of the winner and of each control."""
    max_parallel: int
    max_jobs: int
    """Most jobs in all."""


@dataclass(frozen=True, kw_only=True)
class EndpointPlan:
    """Endpoint of a deployment."""

    name: str
    service: str
    model: str
    """Folder, run or registered version."""
    is_fetched: bool
    """True if the model's files are on this machine."""
    machine: str
    machines: int
    image: str | None
    """Container image; None on this machine."""
    action: str
    """`create`, `replace` or `keep`."""
    usd_per_hour: float | None
    """Price of all machines, US dollars per hour; None if it is unknown, and on this machine."""
    price_source: str
    """Source and date of the price, or empty."""
    requests: tuple[tuple[str, Mapping[str, Any]], ...]
    """Operations of the service with their requests, in order."""


@dataclass(frozen=True, kw_only=True)
class CommandPlan:
    """Plan of one command."""

    verb: str
    name: str
    """Name of the experiment, or of the endpoint."""
    service: str = DEFAULT
    resumes: str | None = None
    """Open group that the command would continue."""
    refusals: tuple[Refusal, ...] = ()
    """Errors with which the command would end, in the order in which it would find them."""
    notes: tuple[str, ...] = ()
    inputs: tuple[InputPlan, ...] = ()
    jobs: tuple[JobEntry, ...] = ()
    """Jobs in the order of their starts; for a sweep, those that are known before it starts."""
    parallel: int = 1
    """Jobs that run at the same time."""
    design: Design | None = None
    """Looks of a comparison."""
    quality: str = ""
    """Measure of quality of a comparison and the accepted loss, in words; empty for other verbs."""
    uploads: Mapping[str, int] = field(default_factory=dict)
    """Size in bytes of everything that would be uploaded, by its URI."""
    new_bucket: str | None = None
    """Bucket that would be created."""
    worst: WorstCase | None = None
    """Most that all jobs can cost; None if it is not known."""
    budget: tuple[str, ...] = ()
    """Sentences about the budget and the jobs that certainly fit; empty without a budget."""
    search: SearchPlan | None = None
    endpoint: EndpointPlan | None = None

    @property
    def exit_code(self) -> int:
        """0 if the command would start, else the exit code with which it would end."""
        return self.refusals[0].exit_code if self.refusals else 0

    @property
    def first_jobs(self) -> tuple[JobEntry, ...]:
        """Jobs that run whatever the looks decide: without later repeats and without jobs that run again."""
        first = self.design.looks[0] if self.design else None
        return tuple(
            job for job in self.jobs if not job.planned.is_again and (first is None or job.planned.repeat < first)
        )
