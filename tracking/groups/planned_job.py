"""Plan of one job: its request, its data and the labels of its run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from training.contract.job_spec import JobSpec
from training.contract.price import Price
from training.services.budget import dearest
from training.staging.tokens.staged import DataDescription

MODEL_ID = "platform.model_id"
"""Tag of a run with the id of the logged model that its job trained."""
AGAIN = "again"
"""Role of a job that runs because the measurement of an equal job was disturbed."""

TRAINING = "training"
"""Role of the only job of `train`, which is compared with no other."""

CALIBRATION = "calibration"
"""Role of a job that times batch sizes."""
CHECK = "check"
"""Role of a job that checks an arm in a few steps."""
BEFORE_TRAININGS = (CALIBRATION, CHECK)
"""Roles of jobs that train no model. They run before the trainings of their arm, and are no repeats of it."""
CHOSEN_SIZE = "chosen_batch_size"
"""Column with the batch size that a calibration chose for its arm; with the prefix `platform.`, a tag of its run."""

FINALIST = "finalist"
"""Role of a sweep's second training of one of its best settings."""

IMPORTED = "imported"
"""Role of a job that others started. Its arm's label names it."""


def job_title(arm: str, repeat: int, role: str | None = None) -> str:
    """Return the name of a job in reports and in MLflow, such as `inductor, repeat 2`. Repeats are shown from 1.

    The jobs of a sweep have a role. The arm's label of a calibration or a check already contains the role. For repeats
    of a sweep's winner, number 0 is the winning trial.
    """
    if role == TRAINING:
        return "training"
    if role == IMPORTED:
        return arm if repeat == 0 else f"{arm}, repeat {repeat + 1}"
    if role == AGAIN:
        return f"{job_title(arm, repeat)}, again"
    if role in BEFORE_TRAININGS:
        return arm
    if role == FINALIST:
        return f"{arm}, second training"
    return f"{arm}, {role}" if role in ("trial", "baseline") else f"{arm}, repeat {repeat + (role != 'confirmation')}"


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """The data of a job, as MLflow's data set view displays it."""

    name: str
    """Name of the file or of the Hub data set."""
    source: str
    """URI, path or description of its origin."""
    digest: str
    rows: Mapping[str, int]
    """Rows by split."""
    evaluation_key: str = ""
    """Key that is equal for models evaluated on the same rows; empty if unknown."""
    rows_key: str = ""
    """Key that is equal for jobs on the same rows of the data, however they are cut or packed; empty if unknown."""
    label_names: Sequence[str] = ()
    """Names of the classes in the order of their numbers; empty without classes."""
    class_counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Rows of each class, by split."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Type of each column that is read, by its name; empty if unknown."""
    description: DataDescription | None = None
    """Lengths, duplicates and sample rows; None if unknown."""


@dataclass(frozen=True)
class ScriptTarget:
    """Quality that an evaluation of a script must reach."""

    metric: str
    value: float
    higher_is_better: bool
    stops: bool
    """True to stop the job once an evaluation reaches it."""

    def is_reached(self, values: Mapping[str, float]) -> bool:
        """Return whether these values reach the target; False without its metric, and for NaN."""
        value = values.get(self.metric, math.nan)
        return value >= self.value if self.higher_is_better else value <= self.value


@dataclass(frozen=True, kw_only=True)
class ScriptPlan:
    """Rules to read the log of a user's script, and the metadata that our own job would emit at its start."""

    regexes: Mapping[str, str]
    """Regular expressions by metric name, each with one group that matches the number."""
    hyperparameters: Mapping[str, Any]
    """Hyperparameters of the script, with batch size and learning rate also under our names, and of its target."""
    samples_per_step: int | None = None
    """Declared samples of one step; None if the meter counts them."""
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    target: ScriptTarget | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the packages that were installed for the script; empty without an environment of its own."""


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """Metadata for logging the model of a completed job that the model's files do not contain."""

    keeps: Literal["best", "winner", "each"] = "each"
    """Models of the group to log: see the field `log_model`."""
    is_of_pairs: bool = False
    answering: Mapping[str, float] = field(default_factory=dict)
    """Options of the task that the model needs to answer as in its evaluation."""


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One job of a group, with the labels of its run."""

    spec: JobSpec
    arm: str
    """Label of the job's arm, such as `inductor`."""
    repeat: int
    """0, 1, 2 ... within its arm."""
    is_baseline: bool
    """True for jobs of the arm with which the others are compared."""
    experiment_yaml: str
    """The experiment as resolved for this job."""
    data: DataSource
    data_key: str
    """Key of the staged data: jobs with the same key train on the same tokens."""

    price: Price | None = None
    """Price of one instance; None if it is free or the price is unknown."""
    fallback_prices: Mapping[str, Price] = field(default_factory=dict)
    script: ScriptPlan | None = None
    """Plan to read a script's log; None for our own job, which emits events."""
    tags: Mapping[str, str] = field(default_factory=dict)
    model: ModelPlan | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Values of the fields that any arm of the group sets, by dotted name: parameters of its run."""

    @property
    def run_name(self) -> str:
        return job_title(self.arm, self.repeat, self.tags.get("platform.role"))

    @property
    def is_again(self) -> bool:
        return self.tags.get("platform.role") == AGAIN

    @property
    def dearest_price(self) -> Price | None:
        """Price of the dearest instance type on which the job may run; None if one is unknown, or if it is free."""
        return dearest([self.price, *(self.fallback_prices.get(each) for each in self.spec.fallback_instance_types)])

    def price_on(self, instance_type: str | None) -> Price | None:
        """Return the price of the instance type that the service selected; None selects the job's own type."""
        if instance_type in {None, self.spec.instance_type}:
            return self.price
        return self.fallback_prices.get(str(instance_type))
