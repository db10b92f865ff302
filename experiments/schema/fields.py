"""Fields of an experiment file: name, type, default, unit and range of each. The job declares what it shares."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)

from experiments.schema.sections import Aws, Machine, Script, Slurm
from sweeps.search_space import BatchGrid, Optimiser, ScalingRule, scale
from sweeps.trials import CostName
from training.contract.errors import nearest
from training.contract.frozen import Frozen, Name
from training.contract.job_spec import Compiler
from training.job.settings.declared import (
    COMPILER_OPTIONS,
    LARGEST_BATCH,
    SETTINGS,
    AdapterSettings,
    TrainingSettings,
    choices_of,
    traits_of,
)
from training.job.tasks import LOSS, MAX_TOKENS, OWN_METRICS, TASKS
from training.services.registry import DEFAULT, ServiceName
from training.staging.sources.request import Data, InputFields, TaskOptions


def reported_metrics(experiment: ExperimentFields) -> list[str]:
    """Return the metrics that an evaluation reports: the user's own, one of which it has, and the task's."""
    own, task, data = OWN_METRICS if experiment.quality else (), TASKS[experiment.task], experiment.data
    return [metric.name for metric in (*own, *(task.metrics_of(data.columns) if data else task.metrics))]


def check_metric(field: str, metric: str, experiment: ExperimentFields) -> None:
    """Raise ValueError if the evaluation does not report a metric, or it does not judge quality."""
    reported = reported_metrics(experiment)
    if metric in reported:
        return
    if metric in [each.name for each in OWN_METRICS]:
        raise ValueError(f"{field} {metric!r} requires quality, your own function: see docs/tasks.md")
    problem = f"is not reported by task {experiment.task}, which reports {', '.join(reported)}"
    if metric == LOSS.name:
        problem = f"depends on the batch size with task {experiment.task}: use {' or '.join(reported)}"
    meant = nearest(metric, reported)
    raise ValueError(f"{field} {metric!r} {problem}{f'.{meant}' if meant else ''}")


class Target(Frozen):
    """Quality that an arm must reach. Its cost counts up to there."""

    metric: Name
    """Evaluation metric, by its name in MLflow: a quality metric of the task, or any metric of a script."""
    value: float
    """Value to reach, in the unit of the metric."""
    stop: bool = False
    """Stop training when the target is reached."""


Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
BatchSize = Annotated[int, Field(ge=1, le=LARGEST_BATCH)]
RepeatsAtLook = Annotated[int, Field(ge=2, le=1_000)]


class AutoBatchSize(int):
    """Batch size `auto`, before a calibration has chosen it. Until then, it counts as this number."""


def _size(value: Any, validate: Callable[[Any], Any]) -> Any:
    is_auto = value == "auto" or isinstance(value, AutoBatchSize)
    return AutoBatchSize(TrainingSettings.batch_size) if is_auto else validate(value)


BatchSizeOrAuto = Annotated[
    int,
    WrapValidator(_size),
    PlainSerializer(lambda size: "auto" if isinstance(size, AutoBatchSize) else size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": LARGEST_BATCH}, {"const": "auto"}]}),
]


MAX_ARM_NAME = 40
"""Characters of an arm's name."""
ARM_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_ARM_NAME - 1}}}")
RESERVED_ARM_NAMES = ("null", "unnamed")
"""Names that mean no baseline, and an arm that lost its name."""


def _arms(value: Any) -> Any:
    """Return arms as a list in which named arms have the key `name`. Raises ValueError for a name that is not valid."""
    if isinstance(value, Mapping):
        value = [_named(name, {} if fields is None else fields) for name, fields in value.items()]
    if not isinstance(value, (list, tuple)):
        return value
    names = [fields["name"] for fields in value if isinstance(fields, Mapping) and "name" in fields]
    for at, name in enumerate(names):
        if not isinstance(name, str) or not ARM_NAME.fullmatch(name) or name in RESERVED_ARM_NAMES:
            raise ValueError(
                f"compare.arms has the name {name!r}: a name has at most {MAX_ARM_NAME} letters, digits, '-', '_' and "
                f"'.', begins with a letter or digit, and is not {' or '.join(RESERVED_ARM_NAMES)}"
            )
        if name in names[:at]:
            raise ValueError(f"compare.arms has the name {name!r} twice: give each arm its own name")
    return value


def _named(name: str, fields: Any) -> Mapping[str, Any]:
    if not isinstance(fields, Mapping) or "name" in fields:
        problem = "has a second name" if isinstance(fields, Mapping) else f"must be a mapping of fields, not {fields!r}"
        raise ValueError(f"compare.arms.{name} {problem}")
    return {"name": name, **fields}


Arms = Annotated[tuple[dict[str, Any], ...], BeforeValidator(_arms), Field(strict=False, min_length=1, max_length=64)]


class Compare(Frozen):
    """Arms and repeats of a comparison."""

    arms: Arms = ({"compiler": "none"}, {"compiler": "inductor"})
    """Arms with the fields that each one changes: `{full: {}, large: {batch_size: 64}}`, or a list of mappings, in
    which `name` is optional."""
    repeats: Annotated[int, Field(ge=1, le=1_000)] = 9
    """Most jobs per arm, each with a different seed. Later comparisons take new ones, unless `seed` is set."""
    stop: Literal["early", "never"] = "early"
    """`early` stops an arm at a look once its cost and quality are decided, or a gain of `least_gain` is unlikely.
    `never` runs all repeats."""
    looks: Annotated[tuple[RepeatsAtLook, ...], Field(strict=False, min_length=1)] = (3, 5, 7, 9)
    """Repeats of each arm at each look, ascending. Looks above `repeats` are dropped; the last one is at `repeats`."""
    least_gain: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """Least gain worth having, as a share of the baseline's cost."""
    quality_margin: Annotated[float, Field(gt=0.0)] | None = None
    """Largest acceptable drop in quality, in the metric's unit. docs/judging.md has the defaults."""
    trainings: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Trainings to come, the first with a cold compile cache. The report estimates their total cost."""
    when_disturbed: Literal["keep", "repeat"] = "keep"
    """`repeat` runs a job again, once, if other programs or the hypervisor disturbed its measurement, and counts the
    second one. `keep` only marks it."""
    baseline: Name | None = None
    """Name or label of the baseline. None means the first arm."""
    check: Literal["refuse", "report", "off"] = "refuse"
    """Check first, in five steps, that the settings of each arm but the baseline change only the time of a training.
    `refuse` trains nothing if an arm is different, `report` trains it anyway, `off` checks nothing. See docs/check.md.
    """
    parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs to run at the same time. Local jobs still wait for free cores or devices."""


class Probe(Frozen):
    """Length of each arm's training under the command `probe`."""

    precision: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """An arm stops when half the 95 % interval of the projected seconds is this share of them."""
    samples: Count | None = None
    """Most samples on which an arm trains. None means a tenth of the training."""
    eval_samples: Count = 256
    """Validation rows in the evaluations of a probe."""


class Calibration(Frozen):
    """Measurements of a calibration job. It trains nothing and keeps no model."""

    batch_sizes: Annotated[tuple[BatchSize, ...], Field(strict=False, min_length=1, max_length=256)]
    """Batch sizes per device, in samples, ascending."""
    seconds: Annotated[float, Field(gt=0.0, le=3_600.0)] = 2.0
    """Approximate seconds for which each batch size is measured, in 4 to 30 steps."""


Ratio = Annotated[float, Field(gt=0.0, le=1_000.0)]


class Published(Frozen):
    """Published ratios of one setting to the baseline."""

    source: Name
    """Publisher and publication."""
    machine: Name | None = None
    """Instance type or GPU of the figures."""
    throughput_ratio: Ratio | None = None
    """Ratio of training samples per second."""
    training_time_ratio: Ratio | None = None
    """Ratio of training seconds."""
    cost_ratio: Ratio | None = None
    """Ratio of dollars."""
    batch_size_ratio: Ratio | None = None
    """Ratio of the batch sizes per device."""
    loss_ratio: Ratio | None = None
    """Ratio of the final losses."""
    break_even_minutes: Annotated[float, Field(gt=0.0)] | None = None
    """Minutes until compiling pays off."""
    spot_savings_percent: Annotated[float, Field(gt=0.0, lt=100.0)] | None = None
    """Largest saving of spot capacity, in percent of the cost."""

    @model_validator(mode="after")
    def _has_a_figure(self) -> Published:
        if not self.figures:
            raise ValueError("at least one published number is needed in addition to source and machine")
        return self

    @property
    def figures(self) -> dict[str, float]:
        """Published figures by field name."""
        figures = self.model_dump(exclude={"source", "machine"}, exclude_none=True)
        return {name: float(value) for name, value in figures.items()}


SamplerName = Literal["auto", "grid", "random", "tpe"]


def _text(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


INDUCTOR_OPTIONS = {
    name: choices_of(SETTINGS[name]) for name, compiler in COMPILER_OPTIONS.items() if compiler == "inductor"
}
"""Options of inductor, and their values as text."""


RANK = "adapter.rank"
"""Option of every compiler of a sweep."""


def _compiler_setting(value: Any) -> Any:
    """Return the text of a compiler setting, with its options in a fixed order. Raises ValueError."""
    if isinstance(value, Mapping):
        own = {str(name): str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}
    elif isinstance(value, str):
        name, _, options_text = value.partition(" ")
        pairs = (word.partition("=") for word in options_text.split())
        own = {"compiler": name, **{option: text for option, _, text in pairs}}
    else:
        return value
    compiler, rank, options = own.pop("compiler", ""), own.pop(RANK, ""), own
    if compiler not in (known := get_args(Compiler)):
        raise ValueError(f"compilers names {compiler or 'no compiler'!r}, but a compiler is one of {_listed(known)}")
    for name, text in options.items():
        if compiler != "inductor" or name not in INDUCTOR_OPTIONS:
            raise ValueError(
                f"compilers gives {compiler} the option {name!r}, but only inductor has {_listed(INDUCTOR_OPTIONS)}"
            )
        if text not in INDUCTOR_OPTIONS[name]:
            raise ValueError(f"compilers has {name} {text!r}, which must be one of {_listed(INDUCTOR_OPTIONS[name])}")
    if rank and not (rank.isdecimal() and int(rank) > 0):
        raise ValueError(f"compilers has {RANK} {rank!r}, which must be a whole number of at least 1")
    ranks = [f"{RANK}={rank}"] if rank else []
    return " ".join([compiler, *(f"{name}={options[name]}" for name in INDUCTOR_OPTIONS if name in options), *ranks])


CompilerSetting = Annotated[str, BeforeValidator(_compiler_setting)]
Range = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=64)]
"""Range such as `8..256`, both ends included."""
TrialCount = Annotated[int, Field(ge=1, le=1_000_000)]


class Searched(Frozen):
    """Values of a script's hyperparameter that a sweep tries."""

    low: float | None = None
    """Least value of a range."""
    high: float | None = None
    """Largest value of a range."""
    log: bool = False
    """Space the values of the range evenly by their logarithms."""
    count: Annotated[int, Field(ge=2, le=100)] = 5
    """Evenly spaced values of the range."""
    values: Annotated[tuple[JsonValue, ...], Field(strict=False)] = ()
    """Texts, numbers, true or false, instead of a range."""

    @model_validator(mode="after")
    def _check(self) -> Searched:
        low, high = (math.nan if end is None else end for end in (self.low, self.high))
        is_range = (0.0 if self.log else -math.inf) < low < high
        if bool(self.values) == is_range or any(isinstance(value, (list, dict)) for value in self.values):
            raise ValueError(
                "sweep.hyperparameters takes lists of plain values and ranges {low, high}, low above 0 if log"
            )
        return self

    def with_own(self, name: str, own: JsonValue) -> tuple[Any, ...]:
        """Return the values to try, with the experiment's own. In a range, they are whole if it and the ends are.

        Raises ValueError if the experiment's own value is no number, and the others are a range.
        """
        if self.low is None or self.high is None:
            return tuple(dict.fromkeys([own, *self.values]))
        if isinstance(own, bool) or not isinstance(own, (int, float)):
            raise ValueError(f"hyperparameters.{name} is a range, but script.hyperparameters.{name} is {own!r}")
        there, back = (math.log, math.exp) if self.log else (float, float)
        first, last = there(self.low), there(self.high)
        spaced = [back(first + (last - first) * at / (self.count - 1)) for at in range(self.count)]
        is_whole = isinstance(own, int) and self.low.is_integer() and self.high.is_integer()
        values = {round(value) if is_whole else float(f"{value:.6g}") for value in spaced}
        return tuple(sorted({*values, own if is_whole else float(own)}))


def _listed_values(value: Any) -> Any:
    return {"values": value} if isinstance(value, (list, tuple)) else value


class Sweep(Frozen):
    """Search space, objective and limits of a sweep. Each compiler has its own study."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] | None = None
    """Name of the sweep. None derives it from the search."""
    compilers: Annotated[tuple[CompilerSetting, ...], Field(strict=False, min_length=1)] = ("none", "inductor")
    """Compilers to search; the first is the base. Inductor may have options, such as `inductor
    compile_mode=max-autotune`, and each a rank: `none adapter.rank=8`."""
    batch_sizes: Range | None = None
    """Range of the batch size per device, in samples. None means 8..256."""
    batch_grid: BatchGrid = "powers_of_two"
    """Batch sizes of the range to try."""
    learning_rate_multipliers: Range | None = None
    """Range of a factor on the scaled learning rate, such as 0.25..4, of which powers of two are tried. None searches
    only the batch size."""
    learning_rate_scalings: Annotated[tuple[ScalingRule, ...], Field(strict=False)] = ()
    """Values of `learning_rate_scaling` to search, such as `linear, sqrt`. Empty means that field alone."""

    hyperparameters: dict[Name, Annotated[Searched, BeforeValidator(_listed_values)]] = Field(default={})
    """Other hyperparameters of a script to search, by name: a list of values, or a range `{low: 0.001, high: 0.1, log:
    true}`, of which 5 evenly spaced values (`count`) are tried. The search starts at the value in
    `script.hyperparameters`, which must have one."""

    objective: Annotated[tuple[CostName | Name, ...], Field(strict=False, min_length=1, max_length=2)] = (
        "billable_seconds",
    )
    """Cost to minimise, up to the `target` or of the whole training with `worse_by`; `steady_samples_per_second` is
    maximised. A metric as the second objective makes a Pareto front."""
    worse_by: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    """Largest accepted loss of `quality` against the base, in the unit of the metric. Replaces a target."""
    quality: Name = LOSS.name
    """Metric that `worse_by` refers to."""
    evaluations: TrialCount = 10
    """Evaluations per trial. Not used with `eval_strategy: samples`, or by a script, which evaluates as it likes."""

    trials: TrialCount = 20
    """Trials per study. Pruned trials count, failed ones do not."""
    sampler: SamplerName = "auto"
    """Method that chooses the next point. `auto` is Optuna's TPE, or `grid` for throughput and small Pareto fronts, and
    ends by itself."""
    pruning: bool = True
    """Stop a trial that can no longer become the best."""
    calibration_seconds: Annotated[float, Field(ge=0.0, le=3_600.0)] | None = None
    """Seconds for which each batch size is timed before the trials. None means 1 for throughput, and otherwise 0: not
    at all."""
    finalists: Annotated[int, Field(ge=1, le=10)] = 3
    """Most settings of each compiler, at most 10 % dearer than its best, that train a second time before the winner is
    chosen. 1 chooses by the trials alone. Throughput and fronts have no finalists."""
    repeats: Annotated[int, Field(ge=0, le=1_000)] = 9
    """Most jobs of the winner and of each control after the search. They run in waves, by `compare.looks`, `least_gain`
    and `quality_margin`; for throughput, only the first wave runs. 0 skips them."""

    max_parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs to run at the same time, over all workers."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def compiler_fields(setting: str) -> dict[str, str]:
    """Return the fields of an experiment that a compiler setting sets, as texts."""
    compiler, *options = setting.split()
    return {"compiler": compiler, **dict(option.split("=", 1) for option in options)}


BucketLengths = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_TOKENS)], ...], Field(strict=False, min_length=1)]
Budget = Annotated[float, Field(gt=0.0, le=1e12)]


def _own_quality(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r".+\.py:[A-Za-z_]\w*", value, re.ASCII):
        raise ValueError(f"quality must be a Python file and its function, such as my_metrics.py:score, not {value!r}")
    return value


OwnQuality = Annotated[Name, BeforeValidator(_own_quality)]

BUDGET_FIELDS = ("max_usd", "max_billable_seconds", "min_run_seconds")
"""Fields of a group's budget. They are the same for all arms, and may change when a group is resumed."""


class PushToHub(Frozen):
    """Repository of the Hugging Face Hub that gets the trained model. No job gets the token."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")]
    """`owner/name`, created if it does not exist."""
    private: bool = True
    """Create a private repository, and refuse to push to a public one."""
    revision: Name | None = None
    """Branch to push to. None means `main`."""


OPTIONS_OF_COMPILERS = {**COMPILER_OPTIONS, "compiler_debug": "trcomp"}
"""Field that only one compiler has -> that compiler."""
OWN_FIELDS_AFTER = {
    "task": ("script",),
    "weights": ("model_type", "model_overrides", "tokenizer", "data"),
    "max_length": (
        *TaskOptions.model_fields,
        *("base_learning_rate", "base_batch_size", "learning_rate_scaling", "learning_rate_multiplier"),
        "max_learning_rate",
    ),
    "padding": ("bucket_lengths",),
    "compiler": ("compiler_debug",),
    "eval_steps": ("eval_samples",),
    "save_model": ("log_model", "push_to_hub"),
}
"""Place of the experiment's own fields among the shared settings: on the page, and in the labels of arms."""


def _help_texts(settings: type) -> dict[str, str]:
    """Return the docstring under each declared setting, by its name."""
    (declared,) = ast.parse(inspect.getsource(settings)).body
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
    kinds = {"adapter": Adapter | None, "batch_size": BatchSizeOrAuto}
    for name, (kind, field) in _declared_fields(TrainingSettings).items():
        fields[name] = (kinds.get(name, kind), field)
        fields |= dict.fromkeys(OWN_FIELDS_AFTER.get(name, ()), (Any, None))
    return fields


def _declared_fields(settings: Any) -> dict[str, Any]:
    """Return the arguments of `create_model` for a dataclass of settings. A text names the members of a list."""
    declared = {field.name: field for field in dataclasses.fields(settings)}
    fields = {}
    for name, help_text in _help_texts(settings).items():
        kind, limits = declared[name].type, dict[str, Any](traits_of(declared[name]).limits)
        if get_origin(kind) is tuple:
            kind = Annotated[kind, BeforeValidator(lambda value: value.split(",") if isinstance(value, str) else value)]
            limits["strict"] = False
        fields[name] = (kind, Field(declared[name].default, description=help_text, **limits))
    return fields


if TYPE_CHECKING:
    Adapter = AdapterSettings

    class SharedFields(Frozen, TrainingSettings):
        """The settings that an experiment shares with the job."""
else:
    Adapter = create_model("Adapter", __base__=Frozen, **_declared_fields(AdapterSettings))
    SharedFields = create_model("SharedFields", __base__=Frozen, **_shared_fields())


class ExperimentFields(InputFields, SharedFields):
    """All fields of an experiment."""

    description: str = ""
    """Purpose of the experiment, in a sentence or two."""
    script: Script | None = None
    """Training script to run instead of a task."""
    data: Data | None = None
    """Training and validation data, from exactly one of `train`, `hub` and `builtin`."""

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
    compiler: Compiler = "none"  # type: ignore[assignment]
    """Compiler: `inductor` is `torch.compile`. For a script also `trcomp`, SageMaker Training Compiler, and
    `trcomp-off`, its image with the compiler off."""
    compiler_debug: bool = False
    """`trcomp`: write debugging information to the job's output. Slows training down."""

    eval_samples: Count | None = None
    """Samples between two evaluations, the same for every batch size."""
    quality: OwnQuality | None = None
    """Your own function that scores each evaluation, such as `my_metrics.py:score`: see docs/tasks.md. Comparisons
    judge by its `eval_score` or `eval_error`."""
    log_model: Literal["best", "winner", "each", "none"] = "best"
    """Models to log to MLflow when the group closes: see docs/models.md."""
    push_to_hub: PushToHub | None = None
    """Push the trained model to the Hugging Face Hub after `train`. With `--wait false`, `attach` or the same command
    pushes it."""
    target: Target | None = None
    """Quality that an arm must reach. Its cost counts up to there."""

    max_usd: Budget | None = None
    """Budget in US dollars for all jobs of a command: see docs/operations.md. Needs a known price."""
    max_billable_seconds: Budget | None = None
    """The same budget in billable instance seconds."""
    min_run_seconds: Annotated[int, Field(ge=1, le=2_419_200)] | None = None
    """Shortest time limit in seconds to which a budget may lower a job's. None means 60, and then a fifth more than the
    longest job of the arm."""

    service: ServiceName = DEFAULT
    """Service that runs the jobs: this machine, Amazon SageMaker or a Slurm cluster."""
    machine: Machine = Machine()
    """Instances and resources of a job."""
    slurm: Slurm = Slurm()
    """Place of a job on a Slurm cluster."""
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
    """Published figures, which reports show next to the measured ones."""

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
