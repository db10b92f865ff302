"""Fields of an experiment file: name, type, default, unit and range of each."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from experiments.schema.compare_fields import (
    BatchSize,
    Calibration,
    Compare,
    Count,
    Probe,
    Published,
    Sweep,
    Target,
)
from experiments.schema.machine_fields import Aws, Machine
from experiments.schema.script_fields import Script
from sweeps.search_space import Optimiser, ScalingRule, scale
from training.contract.frozen import Frozen, Name
from training.job.settings.declared import COMPILER_OPTIONS, MAX_TOKENS, SETTINGS, TrainingSettings, traits_of
from training.services.registry import DEFAULT, ServiceName
from training.staging.sources.request import Data, ModelOverrides

BucketLengths = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_TOKENS)], ...], Field(strict=False, min_length=1)]
Budget = Annotated[float, Field(gt=0.0, le=1e12)]
LoggedModels = Annotated[
    Literal["best", "winner", "each", "none"],
    # The field was a boolean before.
    BeforeValidator(lambda value: {"true": "each", "false": "none"}.get(str(value).lower(), value)),
]

BUDGET_FIELDS = ("max_usd", "max_billable_seconds", "min_run_seconds")
"""Fields of a group's budget. They are the same for all arms, and may change when a group is resumed."""


class PushToHub(Frozen):
    """Repository of the Hugging Face Hub that gets the trained model. The token is never stored or logged."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")]
    """Repository, as `owner/name`. It is created if it does not exist."""
    private: bool = True
    """Create the repository as private, and refuse to push to a public one."""
    revision: Name | None = None
    """Branch to push to. None means `main`."""
    commit_message: Name | None = None
    """Commit message."""
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] = "HF_TOKEN"
    """Environment variable of the command that holds the token. No job gets it."""
    token_secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@:-]{1,512}$")] | None = None
    """Secret of AWS Secrets Manager that holds the token instead."""


OPTIONS_OF_COMPILERS = {**COMPILER_OPTIONS, "compiler_debug": "trcomp"}
"""Field that only one compiler has -> that compiler."""
OWN_FIELDS_AFTER = {
    "task": ("script",),
    "weights": ("model_type", "model_overrides", "tokenizer", "data"),
    "max_length": (
        *("doc_stride", "n_best_answers", "max_answer_length", "packing", "base_learning_rate", "base_batch_size"),
        *("learning_rate_scaling", "learning_rate_multiplier", "max_learning_rate"),
    ),
    "padding": ("bucket_lengths",),
    "compiler": ("compiler_debug",),
    "eval_steps": ("eval_samples",),
    "save_model": ("log_model", "push_to_hub"),
}
"""Place of the experiment's own fields among the shared settings: on the page, and in the labels of arms."""


def _help_texts() -> dict[str, str]:
    """Return the docstring under each declared setting, by its name."""
    (declared,) = ast.parse(inspect.getsource(TrainingSettings)).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _shared_fields() -> dict[str, Any]:
    """Return the arguments of `create_model` for the declared settings, with placeholders for fields in between."""
    fields: dict[str, Any] = {"description": (str, "")}
    for name, help_text in _help_texts().items():
        limits: Any = traits_of(SETTINGS[name]).limits
        fields[name] = (SETTINGS[name].type, Field(SETTINGS[name].default, description=help_text, **limits))
        fields |= dict.fromkeys(OWN_FIELDS_AFTER.get(name, ()), (Any, None))
    return fields


if TYPE_CHECKING:

    class SharedFields(Frozen, TrainingSettings):
        """The settings that an experiment shares with the job."""
else:
    SharedFields = create_model("SharedFields", __base__=Frozen, **_shared_fields())


class ExperimentFields(SharedFields):
    """All fields of an experiment."""

    description: str = ""
    """Purpose of the experiment, in a sentence or two."""
    script: Script | None = None
    """Training script to run instead of a task."""
    model_type: Name | None = None
    """Architecture in Transformers to train from scratch, such as `gpt2`."""
    model_overrides: ModelOverrides = Field(default_factory=dict)
    """Fields of the model configuration to change, such as `n_layer`. Requires random weights."""
    tokenizer: Name | None = None
    """Tokenizer, named like a model. None means that of the model. Requires random weights."""
    data: Data | None = None
    """Training and validation data, from exactly one of `train`, `hub` and `builtin`."""

    doc_stride: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 128
    """Questions: tokens of the context that two neighbouring windows share. Must be below `max_length`."""
    n_best_answers: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Questions: most likely starts and ends per window that are combined into answers."""
    max_answer_length: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 30
    """Questions: longest answer, in tokens."""

    packing: bool | None = None
    """Language models: fill blocks of `max_length` with the tokens of all texts (true, None), or keep one row
    per text (false)."""

    base_learning_rate: Annotated[float, Field(gt=0.0)] = 3e-5
    """Peak learning rate for `base_batch_size`, scaled to the global batch size. At most 10 for a task."""
    base_batch_size: BatchSize = 32
    """Global batch size, in samples, that `base_learning_rate` was chosen for."""
    learning_rate_scaling: ScalingRule = "linear"
    """Rule that scales the learning rate from `base_batch_size` to the global batch size."""
    learning_rate_multiplier: Annotated[float, Field(gt=0.0, le=1024.0)] = 1.0
    """Factor applied to the scaled learning rate. A sweep can search it."""
    max_learning_rate: Annotated[float, Field(gt=0.0)] | None = None
    """Upper limit of the peak learning rate after scaling. At most 10 for a task."""

    bucket_lengths: BucketLengths | None = None
    """Bucket lengths in tokens, ascending. None chooses them from the data."""
    compiler_debug: bool = False
    """Write debugging information of compiler `trcomp` to the job's output. Slows training down."""

    eval_samples: Count | None = None
    """Samples between two evaluations, the same for every batch size."""
    log_model: LoggedModels = "best"
    """Models to log to MLflow when the group closes: that of the `best` repeat of each arm, of the `winner`, of `each`
    job, or `none`. Artifacts on this machine are then deleted, except a script's; with `none` all stay."""
    push_to_hub: PushToHub | None = None
    """Push the trained model to the Hugging Face Hub after `train`. With `--wait false`, `attach` or the same command
    pushes it."""
    target: Target | None = None
    """Quality that an arm must reach. Its cost is measured up to that point."""

    max_usd: Budget | None = None
    """Budget in US dollars for all jobs of a command: see docs/operations.md. Needs a known price."""
    max_billable_seconds: Budget | None = None
    """The same budget in billable instance seconds."""
    min_run_seconds: Annotated[int, Field(ge=1, le=2_419_200)] | None = None
    """Shortest time limit in seconds to which a budget may lower a job's. None means 60, and then a fifth more than the
    longest job of the arm."""

    service: ServiceName = DEFAULT
    """Service that runs the jobs: this machine or Amazon SageMaker."""
    machine: Machine = Machine()
    """Instances and resources of a job."""
    aws: Aws = Aws()
    """AWS account, network and keys. The configuration file of SageMaker's SDK supplies what is not set."""
    compare: Compare = Compare()
    """Arms and repeats of a comparison."""
    probe: Probe | None = None
    """Length of the training in the verb `probe`. Other verbs train to the end."""
    calibration: Calibration | None = None
    """Measure a few steps of several batch sizes instead of training."""
    sweep: Sweep = Sweep()
    """Search space, objective and limits of the verb `sweep`. Each compiler has its own study."""
    published: Published | None = None
    """Published figures of this recipe. Reports show them beside the measured ones."""

    @property
    def first_weights(self) -> Literal["pretrained", "random"]:
        """Initial weights, with None resolved."""
        return self.weights or ("random" if self.model_type else "pretrained")

    @property
    def global_batch_size(self) -> int:
        """Samples per optimizer step, over all devices and instances."""
        processes = self.machine.devices * self.machine.instance_count
        return self.batch_size * processes * self.gradient_accumulation_steps

    @property
    def evaluation(self) -> tuple[str, int | None]:
        """Evaluation strategy of the job, and the optimizer steps between two evaluations."""
        if self.eval_strategy == "samples" and self.eval_samples is not None:
            return "steps", max(1, round(self.eval_samples / self.global_batch_size))
        return self.eval_strategy, self.eval_steps

    @property
    def optimiser(self) -> Optimiser:
        """Settings of the optimizer at the global batch size."""
        base = Optimiser(
            learning_rate=self.base_learning_rate,
            adam_beta1=self.adam_beta1,
            adam_beta2=self.adam_beta2,
            adam_epsilon=self.adam_epsilon,
        )
        return scale(
            self.learning_rate_scaling,
            base,
            base_batch_size=self.base_batch_size,
            global_batch_size=self.global_batch_size,
            multiplier=self.learning_rate_multiplier,
            largest_learning_rate=self.max_learning_rate,
        )

    @property
    def learning_rate(self) -> float:
        """Peak learning rate at the global batch size, per step."""
        return self.optimiser.learning_rate
