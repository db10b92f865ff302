"""Settings of a training, each declared once: type, choices, default, limits, help, and what follows from it.

The job's arguments (`arguments.py`), the experiment's fields (`experiments/schema/fields.py`), the identity of a
training and `docs/experiments.md` are made from these declarations. To add a setting, declare it here and use it. A
value of None is not passed to the job.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin

from training.job.tasks import DEFAULT_TASK, MAX_TOKENS, METRICS, TASKS

if TYPE_CHECKING:
    Task = str
    QualityMetric = str
else:
    Task = Literal[tuple(TASKS)]
    QualityMetric = Literal[tuple(metric.name for metric in METRICS)]

LARGEST_BATCH = 1_048_576
MAX_COUNT = 1_000_000_000
LONGEST_NAME = 4_096
"""Characters of a name or path."""


class Traits(NamedTuple):
    """Properties of a setting, in addition to its type and default."""

    limits: Mapping[str, float]
    """Limits of the value, by pydantic's names: `ge`, `gt`, `le`, `lt`, `min_length` and `max_length`."""
    changes_training: bool
    """False if the setting changes only what is measured, logged or saved, so that a checkpoint can resume with another
    value."""
    compiler: str
    """The only compiler that has this option. Empty if the setting applies to all."""
    plain: Any
    """The value of a plain training. Any other value should change the time of a training and nothing else, which a
    check examines (`checking/check.py`). None for a setting that changes what is learned, or that has no effect."""


def setting(
    default: Any, *, changes_training: bool = True, compiler: str = "", plain: Any = None, **limits: float
) -> Any:
    """Return the dataclass field of a setting. See `Traits` for the arguments."""
    traits = Traits(limits, changes_training, compiler, plain)
    return dataclasses.field(default=default, metadata={"traits": traits})


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of the section `adapter`. The job gets each as an argument `adapter_NAME`."""

    method: Literal["lora", "qlora", "frozen"] = setting("lora")
    """`lora` trains two small matrices beside each linear layer, and the head. `qlora` also keeps the model in 4 bits;
    it needs a GPU and the package `bitsandbytes`. `frozen` trains only the head."""
    rank: int = setting(16, ge=1, le=4_096)
    """Rank of the matrices."""
    alpha: float = setting(32.0, gt=0.0, le=1e6)
    """Scale of their product, which is multiplied by `alpha` / `rank`."""
    dropout: float = setting(0.05, ge=0.0, lt=1.0)
    """Dropout of their input."""
    targets: tuple[str, ...] = setting(("auto",), min_length=1)
    """Linear layers with matrices, by the ends of their names, such as `query`. `auto` takes all but the head's."""
    save: Literal["merged", "adapter"] = setting("merged", changes_training=False)
    """Keep a plain model with the product added to its weights, or only what was trained, which then needs `peft` and
    the same base model."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings that the experiment and the job share. The docstrings are the text of `docs/experiments.md`."""

    task: Task = setting(DEFAULT_TASK)
    """Task to train."""
    model: str | None = setting(None, min_length=1, max_length=LONGEST_NAME)
    """Name on the Hub, folder, or `package:NAME` for a packaged model. Exactly one of `model` and `model_type` is
    required."""
    model_revision: str | None = setting(None, min_length=1, max_length=LONGEST_NAME)
    """Branch, tag or commit of a model on the Hub. None means `main`."""
    weights: Literal["pretrained", "random"] | None = setting(None)
    """Initial weights. None means `pretrained` for a `model` and `random` for a `model_type`."""
    adapter: AdapterSettings | None = setting(None)
    """Train few weights instead of all: see docs/adapters.md."""
    max_length: int = setting(128, ge=8, le=MAX_TOKENS)
    """Longest sequence in tokens, special tokens included. Longer sequences are cut."""

    batch_size: int = setting(32, ge=1, le=LARGEST_BATCH)
    """Training batch size per device, in samples. `auto` takes the largest of the range `sweep.batch_sizes` that gains
    speed and fits in memory: see docs/sweeps.md."""
    eval_batch_size: int | None = setting(None, ge=1, le=LARGEST_BATCH, changes_training=False)
    """Evaluation batch size per device, in samples. None means the experiment's own `batch_size`, for every arm."""
    drop_last: bool = setting(False)
    """Leave out the rows at the end of an epoch that do not fill a batch on every device."""
    gradient_accumulation_steps: int = setting(1, ge=1, le=65_536, plain=1)
    """Batches per device that make one optimizer step."""
    epochs: float | None = setting(None, gt=0.0, le=100_000.0)
    """Passes over the training rows. Exactly one of `epochs` and `max_steps` is required."""
    max_steps: int | None = setting(None, ge=1, le=MAX_COUNT)
    """Optimizer steps."""
    warmup_samples: int = setting(0, ge=0, le=MAX_COUNT)
    """Warm-up in samples, over which the learning rate rises from 0."""
    lr_scheduler: Literal["linear", "cosine", "constant"] = setting("linear")
    """Shape of the learning rate after the warm-up."""
    adam_beta1: float = setting(0.9, ge=0.0, lt=1.0)
    """Decay rate of Adam's first moment at `base_batch_size`, per step."""
    adam_beta2: float = setting(0.999, ge=0.0, lt=1.0)
    """Decay rate of Adam's second moment at `base_batch_size`, per step."""
    adam_epsilon: float = setting(1e-8, gt=0.0, le=1.0)
    """Epsilon of Adam at `base_batch_size`, in units of the gradient."""
    weight_decay: float = setting(0.0, ge=0.0, le=10.0)
    """Decoupled weight decay, multiplied by the learning rate."""
    max_grad_norm: float = setting(1.0, ge=0.0, le=1e6)
    """Norm of the gradient above which it is clipped; 0 disables clipping."""
    seed: int = setting(42, ge=0, le=2**31 - 1)
    """Seed of new weights, dropout and the data order. Each repeat adds 1."""

    precision: Literal["auto", "fp32", "bf16", "fp16", "fp8"] = setting("auto", plain="fp32")
    """Number format of the computation: see docs/measuring.md."""
    padding: Literal["auto", "longest", "buckets", "max_length", "none"] = setting("auto", plain="longest")
    """Pad each batch to its longest row, to the next bucket length, or to `max_length`. `none` computes no padding. See
    docs/measuring.md."""
    length_grouping: bool = setting(True)
    """Batch rows of similar length together. Has no effect with `padding: max_length`."""
    attention: Literal["auto", "blockwise", "sdpa", "eager", "flash_attention_2"] = setting("auto", plain="eager")
    """Attention implementation. `blockwise` is our own, for training on a CPU; evaluations then use `eager`. See
    docs/measuring.md."""
    kernels: Literal["torch", "liger"] = setting("torch", plain="torch")
    """Kernels of norms, rotary embeddings, MLPs and the loss of language models: PyTorch's or Liger's. See
    docs/measuring.md."""
    optimizer: Literal["auto", "adamw"] = setting("auto", plain="adamw")
    """AdamW: `auto` takes the fused kernel where torch has one, and on a CPU leaves out the embeddings of tokens that
    do not occur (equal but for rounding); `adamw` uses one kernel per operation, and trains all."""
    dataloader_workers: int | None = setting(None, ge=0, le=256, changes_training=False, plain=0)
    """Processes per device that build batches. None means 0: fetching a batch from a process takes longer than building
    it."""
    compiler: Literal["none", "inductor"] = setting("none", plain="none")
    """Compiler: `inductor` is `torch.compile`."""
    compile_scope: Literal["layers", "model"] = setting("layers", compiler="inductor")
    """Inductor: compile one program for the repeated `layers`, or the whole `model`, which takes longer to compile."""
    compile_mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = setting(
        "default", compiler="inductor"
    )
    """Inductor: mode of `torch.compile`. `reduce-overhead` and `max-autotune` use CUDA graphs on a GPU."""
    compile_dynamic: bool | None = setting(None, compiler="inductor")
    """Inductor: one program for all lengths (true), or one per length (false). None means true if padding is `longest`,
    or on a CPU with several bucket lengths."""
    sharding: Literal["none", "fsdp2"] = setting("none", plain="none")
    """Several devices: each holds the whole model (`none`: DDP), or a part of its weights, gradients and optimizer
    states (`fsdp2`, with torch 2.6 or later). See docs/measuring.md."""

    logging_steps: int = setting(10, ge=1, le=MAX_COUNT, changes_training=False)
    """Optimizer steps between two logged losses."""
    eval_strategy: Literal["end", "epoch", "steps", "samples"] = setting("epoch", changes_training=False)
    """Evaluate after every epoch, every `eval_steps`, or every `eval_samples`, and always at the end."""
    eval_steps: int | None = setting(None, ge=1, le=MAX_COUNT, changes_training=False)
    """Optimizer steps between two evaluations."""
    save_strategy: Literal["none", "epoch", "steps"] = setting("none", changes_training=False)
    """Write no checkpoints, one per epoch, or one every `save_steps`."""
    save_steps: int | None = setting(None, ge=1, le=MAX_COUNT, changes_training=False)
    """Optimizer steps between two checkpoints."""
    save_total_limit: int = setting(1, ge=1, le=1_000, changes_training=False)
    """Checkpoints to keep. The best one is always kept."""
    best_metric: QualityMetric | None = setting(None)
    """Evaluation metric that selects the model to keep; None keeps the last one. Requires a checkpoint after every
    evaluation."""
    save_model: bool = setting(True, changes_training=False)
    """Keep the trained model as the artifact of the job."""
    steady_after_steps: int = setting(3, ge=1, le=1_000_000, changes_training=False)
    """First optimizer steps, which the steady throughput leaves out."""


def traits_of(field: "dataclasses.Field[Any]") -> Traits:
    """Return the traits of a setting's field."""
    traits: Traits = field.metadata["traits"]
    return traits


SETTINGS: dict[str, "dataclasses.Field[Any]"] = {field.name: field for field in dataclasses.fields(TrainingSettings)}


ADAPTER_PACKAGES = {"lora": ("peft==0.21.2",), "qlora": ("peft==0.21.2", "bitsandbytes==0.50.2"), "frozen": ()}
"""Packages that a method needs beside torch and transformers, with the versions that jobs on SageMaker install."""
ADAPTER_PREFIX = "adapter_"
ADAPTER_SETTINGS = {ADAPTER_PREFIX + field.name: field for field in dataclasses.fields(AdapterSettings)}
"""The settings of an adapter, by the names of the job's arguments."""


def type_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the type of a setting's values other than None."""
    # `|` makes a `typing.Union` of a Literal, and a `types.UnionType` of classes.
    return get_args(field.type)[0] if get_origin(field.type) in (Union, UnionType) else field.type


def choices_of(field: "dataclasses.Field[Any]") -> tuple[str, ...]:
    """Return the values that a setting can have, as texts; empty if they cannot be listed."""
    kind = type_of(field)
    return ("true", "false") if kind is bool else get_args(kind) if getattr(kind, "__origin__", None) is Literal else ()


COMPILER_OPTIONS = {name: traits_of(field).compiler for name, field in SETTINGS.items() if traits_of(field).compiler}
"""Setting that only one compiler has -> that compiler."""
PLAIN = {name: traits_of(field).plain for name, field in SETTINGS.items() if traits_of(field).plain is not None}
"""Setting that should not change what is learned -> its value in a plain training."""
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that record CUDA graphs."""
SHARDING_SINCE = (2, 6)
"""First version of torch with `torch.distributed.fsdp.fully_shard`."""


def contradictions(settings: TrainingSettings, evaluation: tuple[str, int | None]) -> Iterator[str]:
    """Yield a sentence for each pair of settings that cannot be combined.

    `evaluation` is the job's strategy of evaluations with their distance in steps: the experiment may set it in
    samples.
    """
    if settings.epochs is None and settings.max_steps is None:
        yield "one of epochs and max_steps is required, but neither is set"
    if settings.epochs is not None and settings.max_steps is not None:
        yield f"epochs {settings.epochs:g} and max_steps {settings.max_steps} cannot be combined: set only one"
    yield from unused_options(settings)
    if settings.adapter is not None:
        yield from _contradictions_of_adapter(settings, settings.adapter)
    if settings.sharding != "none":
        yield from _contradictions_of_sharding(settings)
    if settings.padding == "none" and settings.compiler != "none":
        yield (
            f"padding 'none' and compiler {settings.compiler!r} cannot be combined: the number of tokens changes at "
            "every step. Use compiler 'none', or padding 'auto'"
        )
    if settings.padding == "none" and settings.attention != "auto":
        yield f"padding 'none' needs attention 'auto', not {settings.attention!r}: it has its own implementation"
    for strategy, steps in (("eval_strategy", "eval_steps"), ("save_strategy", "save_steps")):
        if getattr(settings, strategy) == "steps" and getattr(settings, steps) is None:
            yield f"{strategy} 'steps' requires {steps}, the number of steps in between"
    evaluates, saves = _cadence(*evaluation), _cadence(settings.save_strategy, settings.save_steps)
    if settings.best_metric is not None and evaluates != saves:
        yield (
            f"best_metric {settings.best_metric!r} needs a checkpoint after every evaluation: the job evaluates "
            f"{evaluates} and saves {saves}"
        )


def unused_options(settings: TrainingSettings) -> Iterator[str]:
    """Yield a sentence for each option of a compiler that is not the one that is set."""
    for name, compiler in COMPILER_OPTIONS.items():
        if getattr(settings, name) != SETTINGS[name].default and settings.compiler != compiler:
            yield f"{name} requires compiler {compiler!r}; the compiler is {settings.compiler!r}"


def _contradictions_of_adapter(settings: TrainingSettings, adapter: AdapterSettings) -> Iterator[str]:
    if settings.weights == "random" or settings.model is None:
        yield "adapter needs pretrained weights, which it leaves as they are: set model, or train without adapter"
    for name, other in (("sharding", "fsdp2"), ("precision", "fp8")):
        if getattr(settings, name) == other:
            yield f"adapter and {name} {other!r} cannot be combined: use {SETTINGS[name].default!r}"
    if adapter.method == "frozen" and not TASKS[settings.task].has_new_head:
        yield f"adapter.method 'frozen' trains a new head, and {settings.task} adds none: use 'lora'"
    if adapter.method == "qlora" and adapter.save == "merged":
        yield "adapter.save must be 'adapter' with method 'qlora': matrices in 4 bits cannot hold the sum"


def _contradictions_of_sharding(settings: TrainingSettings) -> Iterator[str]:
    if settings.compile_scope != "layers":
        yield f"sharding 'fsdp2' needs compile_scope 'layers', not {settings.compile_scope!r}"
    if settings.compile_mode in CUDA_GRAPH_MODES:
        yield (
            f"sharding 'fsdp2' does not work with compile_mode {settings.compile_mode!r}, which records CUDA graphs: "
            "use 'default' or 'max-autotune-no-cudagraphs'"
        )


def _cadence(strategy: str, steps: int | None) -> str:
    phrases = {"end": "at the end", "none": "never", "epoch": "every epoch", "steps": f"every {steps} steps"}
    return phrases.get(strategy, f"every number of {strategy}")
