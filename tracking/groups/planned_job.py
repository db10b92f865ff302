"""What a launcher is asked to run and track."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.contract.job_spec import JobSpec, Scalar
from training.contract.price import Price

MODEL_ID = "platform.model_id"
"""Tag of a run: the logged model that its job trained."""


def job_title(arm: str, repeat: int, role: str | None = None) -> str:
    """Return what people know a job by, such as `inductor, repeat 2`: the first has the number 1.

    A sweep's jobs have a role. A calibration's arm says it already; its repeats count beside the trial, which is 0.
    """
    if role == "calibration":
        return arm
    return f"{arm}, {role}" if role in ("trial", "baseline") else f"{arm}, repeat {repeat + (role != 'confirmation')}"


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """The data of a job, as MLflow's data set view shows it."""

    name: str
    """Telling name, such as a file's or a Hub data set's."""
    source: str
    """Where it is: a URI, a path or a description."""
    digest: str
    """Hash of its content; MLflow keeps 36 characters."""
    rows: Mapping[str, int]
    """Rows by split."""
    evaluation_key: str = ""
    """Models that were evaluated on the same rows have the same; empty where that is not known."""
    label_names: Sequence[str] = ()
    """Names of the classes in the order of their numbers; none where there are no classes."""
    class_counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Rows of each class, by split."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What is listened for in the log of a script that tells no events, and what it would have told at its start."""

    regexes: Mapping[str, str]
    """Regular expression of one group for each number to read."""
    hyperparameters: Mapping[str, Scalar]
    """What the script was given, batch size and learning rate also under our names."""


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """How the model of a job that completes is logged to its run; what the model's own files do not tell."""

    is_of_pairs: bool = False
    """Whether a classification is of pairs of texts."""
    answering: Mapping[str, int] = field(default_factory=dict)
    """Question answering: max_length, doc_stride, n_best_answers, max_answer_length of the training."""


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One job of a group, and what its run says about it."""

    spec: JobSpec
    arm: str
    """Label of the setting it belongs to, such as `inductor`."""
    repeat: int
    """0, 1, 2 ... within its arm."""
    is_baseline: bool
    """True for jobs of the arm that the others are compared with."""
    experiment_yaml: str
    """The experiment as resolved for this job."""
    data: DataSource
    data_key: str
    """Key of the staged data: jobs of one key saw the same tokens."""

    price: Price | None = None
    """What a machine costs, where it costs anything and that is known."""
    fallback_prices: Mapping[str, Price] = field(default_factory=dict)
    """Likewise of the types that may be taken in its place."""
    script: Heard | None = None
    """How to listen to a script; None for our own job, which tells events."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Further tags of its run."""
    model: ModelPlan | None = None
    """How its model is logged; None logs none."""

    @property
    def run_name(self) -> str:
        """Telling name of the job's run, see `job_title`."""
        return job_title(self.arm, self.repeat, self.tags.get("platform.role"))

    def price_on(self, chosen: str | None) -> Price | None:
        """Return what a machine costs of the type that the service chose; None is a service that had no choice."""
        return self.price if chosen in {None, self.spec.instance_type} else self.fallback_prices.get(str(chosen))
