"""The job's arguments, which script mode passes as pairs `--name value` of strings: names, types and rules."""

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from training.job.compilation.compilers import COMPILERS
from training.job.data.padding import PADDING_KINDS
from training.job.processes.reporting import ArgumentError
from training.job.tasks import TASKS


@dataclass(frozen=True)
class Arguments:
    """Settings of the job, resolved by the planner. Fields that every plan passes have no default here."""

    task: str
    """A key of `tasks.TASKS`."""
    weights: str
    """pretrained; random: train the model's architecture from scratch."""
    compiler: str
    """A key of `compilers.COMPILERS`."""
    precision: str
    """Number format of matrix products. auto selects bf16 on a GPU that computes it fast, else fp16. On a CPU,
    the CPU's flags choose between bf16 and fp32. fp8 is bf16 with 8 bits in the repeated layers."""
    padding: str
    """longest: the batch's longest row; buckets: the smallest of `bucket_lengths` that fits; max_length; none: the
    model's layers compute no padding."""
    length_grouping: bool
    """Batch rows of similar length together, unless all are padded to `max_length`."""
    attention: str
    """Attention implementation. blockwise is ours, for training on a CPU (see `compilation/blockwise.py`); evaluations
    then use eager. auto selects the default of transformers. For rows of up to 1,024 tokens on a CPU, it selects
    blockwise if the model can use it, else eager."""
    optimizer: str
    """AdamW kernel: auto selects the fused kernel if torch has one for the device."""
    max_length: int
    """Longest sequence, in tokens. Staging has already cut the rows to this length."""
    batch_size: int
    """Training samples per device and batch."""
    eval_batch_size: int
    """Evaluation samples per device and batch."""
    drop_last: bool
    """Leave out an epoch's last rows if they do not fill a batch on every device."""
    gradient_accumulation_steps: int
    """Batches per device and optimizer step."""
    learning_rate: float
    """Peak learning rate, already scaled for the global batch size."""
    adam_beta1: float
    """Decay of Adam's first moment."""
    adam_beta2: float
    """Decay of Adam's second moment."""
    adam_epsilon: float
    """Adam's epsilon."""
    weight_decay: float
    """Decoupled weight decay."""
    max_grad_norm: float
    """Norm to which gradients are clipped; 0 disables clipping."""
    lr_scheduler: str
    """Shape of the learning rate after warm-up."""
    warmup_samples: int
    """Samples over which the learning rate rises to its peak."""
    seed: int
    """Seed of the data order, new layers and dropout."""
    logging_steps: int
    """Optimizer steps between two logged losses. The first and last steps are always logged."""
    eval_strategy: str
    """Schedule of evaluations: end, epoch or steps. The end of the training is always evaluated."""
    save_strategy: str
    """Schedule of checkpoints: none, epoch or steps."""
    save_total_limit: int
    """Number of checkpoints to keep."""
    save_model: bool
    """Write the trained model and its tokenizer."""
    steady_after_steps: int
    """Optimizer steps that the steady throughput leaves out as warm-up."""

    kernels: str = "torch"
    """torch: kernels of PyTorch and transformers; liger: those of the package liger-kernel."""
    compile_scope: str = "layers"
    """Inductor: layers compiles one program for the repeated layers, model the whole model."""
    compile_mode: str = "default"
    """Inductor: mode of torch.compile."""
    compile_dynamic: Optional[bool] = None
    """Inductor: one program for all lengths. None lets the job decide."""
    sharding: str = "none"
    """none: every process holds the whole model; fsdp2: each holds a part of it (see `loop/sharding.py`)."""
    model: str = ""
    """Name on the Hub; ignored when the job has a channel `model`."""
    model_revision: Optional[str] = None
    """Branch, tag or commit on the Hub."""
    bucket_lengths: Tuple[int, ...] = ()
    """Bucket lengths in tokens, ascending. `max_length` is added when the last one is shorter."""
    dataloader_workers: Optional[int] = None
    """Processes that build batches. None means 2 on a GPU and 0 on a CPU."""
    epochs: Optional[float] = None
    """Passes over the training rows. Exactly one of `epochs` and `max_steps` is set."""
    max_steps: Optional[int] = None
    """Optimizer steps of the training."""
    eval_steps: Optional[int] = None
    """Optimizer steps between two evaluations if `eval_strategy` is steps."""
    save_steps: Optional[int] = None
    """Optimizer steps between two checkpoints if `save_strategy` is steps."""
    best_metric: Optional[str] = None
    """Evaluation metric, such as `eval_f1_macro`, that selects the model to save. None saves the last model."""
    probe_precision: Optional[float] = None
    """Train only until the projected duration is this precise: half the width of its 95 % interval divided by its
    value. None trains to the end."""
    probe_samples: Optional[int] = None
    """Samples after which a probe ends at the latest. None means a tenth of the training."""
    probe_eval_samples: int = 256
    """Validation rows that a probe or a calibration evaluates."""
    calibration_batch_sizes: Tuple[int, ...] = ()
    """Batch sizes per device, ascending. The job measures a few steps of each and trains nothing."""
    calibration_seconds: float = 2.0
    """Approximate seconds for which each batch size is measured."""
    target_metric: Optional[str] = None
    """Metric of the target, such as `eval_accuracy`."""
    target_value: Optional[float] = None
    """Value to reach."""
    target_direction: Optional[str] = None
    """min: at or below the value; max: at or above. None means min for losses and perplexity, else max."""
    target_stop: bool = False
    """Stop training when the target is reached."""


CHOICES: Dict[str, Sequence[str]] = {
    "task": tuple(TASKS),
    "compiler": tuple(COMPILERS),
    "compile_scope": ("layers", "model"),
    "compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "sharding": ("none", "fsdp2"),
    "weights": ("pretrained", "random"),
    "precision": ("auto", "fp32", "bf16", "fp16", "fp8"),
    "attention": ("auto", "blockwise", "sdpa", "eager", "flash_attention_2"),
    "kernels": ("torch", "liger"),
    "optimizer": ("auto", "adamw"),
    "padding": ("auto", *PADDING_KINDS),
    "lr_scheduler": ("linear", "cosine", "constant"),
    "eval_strategy": ("end", "epoch", "steps"),
    "save_strategy": ("none", "epoch", "steps"),
    "target_direction": ("min", "max"),
}

Rule = Tuple[str, Callable[[Any], bool]]
AT_LEAST_1: Rule = ("at least 1", lambda value: value >= 1)
AT_LEAST_0: Rule = ("at least 0", lambda value: value >= 0)
ABOVE_0: Rule = ("above 0", lambda value: value > 0)
BETA: Rule = ("at least 0 and below 1", lambda value: 0 <= value < 1)

RULES: Dict[str, Rule] = {
    **dict.fromkeys(("max_length", "batch_size", "eval_batch_size", "gradient_accumulation_steps"), AT_LEAST_1),
    **dict.fromkeys(("max_steps", "logging_steps", "eval_steps", "save_steps", "save_total_limit"), AT_LEAST_1),
    **dict.fromkeys(("steady_after_steps", "probe_samples", "probe_eval_samples"), AT_LEAST_1),
    **dict.fromkeys(("weight_decay", "max_grad_norm", "warmup_samples", "dataloader_workers"), AT_LEAST_0),
    **dict.fromkeys(("learning_rate", "adam_epsilon", "epochs", "calibration_seconds"), ABOVE_0),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), BETA),
    "seed": ("between 0 and 4294967295", lambda value: 0 <= value < 2**32),
    "probe_precision": ("above 0 and below 1", lambda value: 0 < value < 1),
}
"""Values that an argument can have: a text, and the condition."""

FIELDS = {field.name: field for field in dataclasses.fields(Arguments)}
REQUIRED = tuple(name for name, field in FIELDS.items() if field.default is dataclasses.MISSING)

EARLIER_NAMES = {"per_device_batch_size": "batch_size", "per_device_eval_batch_size": "eval_batch_size"}
"""Name in plans and checkpoints of earlier versions -> current name."""
EARLIER_DROPOUT = "dropout"
"""Argument of earlier versions, whose random numbers PyTorch (`torch`) or they themselves drew (`bulk`)."""


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments. Raises `ArgumentError` with the name, the value and the rule."""
    values = {name: _value(name, text) for name, text in _name_value_pairs(argv)}
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise ArgumentError(f"missing argument{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
    arguments = Arguments(**values)
    _check_together(arguments)
    return arguments


def _name_value_pairs(argv: Sequence[str]) -> List[Tuple[str, str]]:
    pairs = []
    for at in range(0, len(argv), 2):
        name = EARLIER_NAMES.get(argv[at][2:], argv[at][2:])
        if name == EARLIER_DROPOUT and argv[at + 1 :][:1] in (["auto"], ["torch"]):
            continue
        if name == EARLIER_DROPOUT:
            raise ArgumentError("argument dropout no longer exists: leave it out, and PyTorch draws the random numbers")
        if not argv[at].startswith("--") or name not in FIELDS:
            matches = difflib.get_close_matches(name, list(FIELDS), n=1, cutoff=0.6)
            suggestion = f" Did you mean '--{matches[0]}'?" if matches else ""
            raise ArgumentError(f"unknown argument {argv[at]!r}.{suggestion}")
        if at + 1 == len(argv):
            raise ArgumentError(f"argument {name} has no value")
        pairs.append((name, argv[at + 1]))
    return pairs


def _value(name: str, text: str) -> Any:
    description, convert = CONVERSIONS[FIELDS[name].type]
    try:
        value = convert(text)
    except ValueError:
        raise ArgumentError(f"{name} is {text!r}: it must be {description}") from None
    if name in CHOICES and value not in CHOICES[name]:
        raise ArgumentError(f"{name} is {text!r}: it must be one of {', '.join(CHOICES[name])}")
    rule, is_valid = RULES.get(name, ("", lambda _: True))
    if not is_valid(value):
        raise ArgumentError(f"{name} is {text!r}: it must be {rule}")
    return value


def _ascending_numbers(text: str) -> Tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(",") if part.strip())
    if any(number < 1 for number in numbers) or list(numbers) != sorted(set(numbers)):
        raise ValueError(text)
    return numbers


def _finite_number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


TEXT = ("text", str)
WHOLE = ("a whole number", int)
NUMBER = ("a finite number", _finite_number)

CONVERSIONS: Dict[Any, Tuple[str, Callable[[str], Any]]] = {
    str: TEXT,
    Optional[str]: TEXT,
    int: WHOLE,
    Optional[int]: WHOLE,
    float: NUMBER,
    Optional[float]: NUMBER,
    bool: ("True or False", _boolean),
    Optional[bool]: ("True or False", _boolean),
    Tuple[int, ...]: ("ascending whole numbers, such as 16,32,64", _ascending_numbers),
}


def _check_together(arguments: Arguments) -> None:
    for name in ("eval", "save"):
        if getattr(arguments, f"{name}_strategy") == "steps" and getattr(arguments, f"{name}_steps") is None:
            raise ArgumentError(f"{name}_strategy 'steps' requires {name}_steps")
    if (arguments.epochs is None) == (arguments.max_steps is None):
        raise ArgumentError("set exactly one of epochs and max_steps")
    evaluates = (arguments.eval_strategy, arguments.eval_strategy == "steps" and arguments.eval_steps)
    saves = (arguments.save_strategy, arguments.save_strategy == "steps" and arguments.save_steps)
    if arguments.best_metric is not None and evaluates != saves:
        raise ArgumentError(
            f"best_metric is {arguments.best_metric!r}: every evaluation needs a checkpoint, so save_strategy and "
            "save_steps must equal eval_strategy and eval_steps"
        )
    if arguments.padding in ("auto", "buckets") and not arguments.bucket_lengths:
        raise ArgumentError(f"padding {arguments.padding!r} needs bucket_lengths")
    if arguments.padding == "none" and arguments.compiler != "none":
        raise ArgumentError(
            f"padding 'none' and compiler {arguments.compiler!r} cannot be combined: the number of tokens changes at "
            "every step"
        )
    if arguments.padding == "none" and arguments.attention != "auto":
        raise ArgumentError(
            f"padding 'none' needs attention 'auto', not {arguments.attention!r}: it has its own implementation"
        )
    if arguments.calibration_batch_sizes and arguments.probe_precision:
        raise ArgumentError("calibration_batch_sizes and probe_precision cannot be combined: one trains nothing")
    if (arguments.target_metric is None) != (arguments.target_value is None):
        raise ArgumentError("target_metric and target_value must be set together")
    if arguments.target_stop and arguments.target_metric is None:
        raise ArgumentError("target_stop is True, but target_metric is not set")
