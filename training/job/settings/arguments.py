"""The job's arguments: `--name value` pairs, every value a string, as script mode passes them."""

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from compilation.compilers import COMPILERS
from reporting.errors import ArgumentError
from tasks import TASKS

CHOICES: Dict[str, Sequence[str]] = {
    "task": tuple(TASKS),
    "compiler": tuple(COMPILERS),
    "weights": ("pretrained", "random"),
    "precision": ("auto", "fp32", "bf16", "fp16"),
    "attention": ("auto", "sdpa", "eager", "flash_attention_2"),
    "optimizer": ("auto", "adamw"),
    "dropout": ("auto", "torch"),
    "padding": ("longest", "buckets", "max_length"),
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
    "max_length": AT_LEAST_1,
    "per_device_batch_size": AT_LEAST_1,
    "per_device_eval_batch_size": AT_LEAST_1,
    "gradient_accumulation_steps": AT_LEAST_1,
    "learning_rate": ABOVE_0,
    "adam_beta1": BETA,
    "adam_beta2": BETA,
    "adam_epsilon": ABOVE_0,
    "weight_decay": AT_LEAST_0,
    "max_grad_norm": AT_LEAST_0,
    "warmup_samples": AT_LEAST_0,
    "epochs": ABOVE_0,
    "max_steps": ("at least 1, or -1 for all epochs", lambda value: value >= 1 or value == -1),
    "seed": ("between 0 and 4294967295", lambda value: 0 <= value < 2**32),
    "dataloader_workers": AT_LEAST_0,
    "logging_steps": AT_LEAST_1,
    "eval_steps": AT_LEAST_1,
    "save_steps": AT_LEAST_1,
    "save_total_limit": AT_LEAST_1,
    "steady_after_steps": AT_LEAST_1,
    "probe_precision": ("above 0 and below 1", lambda value: 0 < value < 1),
    "probe_samples": AT_LEAST_1,
    "probe_eval_samples": AT_LEAST_1,
    "calibration_seconds": ABOVE_0,
}


@dataclass(frozen=True)
class Arguments:
    """What the job is told."""

    model: str = ""
    """Name on the Hub; ignored when the channel `model` is there."""
    model_revision: Optional[str] = None
    """Branch, tag or commit on the Hub."""
    task: str = "classification"
    """What is learnt: a key of `tasks.TASKS`."""
    weights: str = "pretrained"
    """random builds the model's architecture and trains it from scratch."""
    compiler: str = "none"
    """A key of `compilers.COMPILERS`."""
    precision: str = "auto"
    """Of the matrix products; auto takes bf16 where the device is fast at it, else fp16 on a GPU, else fp32."""
    padding: str = "longest"
    """longest: of the batch; buckets: the smallest of `bucket_lengths` that fits; max_length."""
    bucket_lengths: Tuple[int, ...] = ()
    """Tokens, ascending; `max_length` is added when the last is shorter."""
    length_grouping: bool = True
    """Put rows of like length in one batch, unless all are padded to `max_length` anyway."""
    attention: str = "auto"
    """How the model computes attention; auto takes eager on a processor, else what transformers takes."""
    dropout: str = "auto"
    """How random bits are drawn on a processor: auto draws them in bulk, torch one number an element."""
    optimizer: str = "auto"
    """AdamW: auto takes the one in a single kernel where torch has it."""
    dataloader_workers: Optional[int] = None
    """Processes that make batches; None takes 2 on a GPU and none on a processor."""
    max_length: int = 512
    """Tokens."""
    per_device_batch_size: int = 8
    """Samples a device takes at a time while training."""
    per_device_eval_batch_size: int = 32
    """Samples a device takes at a time while evaluating."""
    drop_last: bool = False
    """Leave out the rows at the end of an epoch that do not fill a batch of every device."""
    gradient_accumulation_steps: int = 1
    """Batches a device takes for one optimizer step."""
    learning_rate: float = 5e-5
    """Peak learning rate, already scaled to the global batch."""
    adam_beta1: float = 0.9
    """Decay of Adam's first moment."""
    adam_beta2: float = 0.999
    """Decay of Adam's second moment."""
    adam_epsilon: float = 1e-8
    """Adam's epsilon."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    max_grad_norm: float = 1.0
    """Norm that gradients are clipped to; 0 clips none."""
    lr_scheduler: str = "linear"
    """Shape of the learning rate after warm-up."""
    warmup_samples: int = 0
    """Samples over which the learning rate rises to its peak."""
    epochs: float = 1.0
    """Passes over the training rows."""
    max_steps: int = -1
    """Optimizer steps after which training ends; -1 leaves it to `epochs`."""
    seed: int = 42
    """Of the data order, the new layers and dropout."""
    logging_steps: int = 10
    """Optimizer steps between two logged losses; the first and the last step are logged in any case."""
    eval_strategy: str = "end"
    """When to evaluate; always at the end."""
    eval_steps: Optional[int] = None
    """Optimizer steps between two evaluations, with `eval_strategy` steps."""
    save_strategy: str = "none"
    """When to write a checkpoint."""
    save_steps: Optional[int] = None
    """Optimizer steps between two checkpoints, with `save_strategy` steps."""
    save_total_limit: Optional[int] = None
    """Checkpoints kept; None keeps all."""
    best_metric: Optional[str] = None
    """Evaluation metric such as `eval_f1_macro`: the model of its best evaluation is kept; None keeps the last."""
    save_model: bool = True
    """Write the trained model and its tokenizer."""
    push_to_hub: Optional[str] = None
    """Repository on the Hub, owner/name, that takes the trained model; None pushes it nowhere."""
    push_private: bool = True
    """Make the repository a private one, and refuse one that is public."""
    push_revision: Optional[str] = None
    """Branch that is pushed to; None is main."""
    push_message: Optional[str] = None
    """Of the commit."""
    push_token_variable: str = "HF_TOKEN"
    """Environment variable that holds the token."""
    push_token_secret: Optional[str] = None
    """Secret of AWS Secrets Manager that holds the token instead: its name or ARN."""
    steady_after_steps: int = 3
    """Optimizer steps that count as warm-up and are left out of the steady throughput."""
    probe_precision: Optional[float] = None
    """Train only until it is as certain as this how long the whole would take: half the 95 % interval's width over the
    seconds. None trains to the end."""
    probe_samples: Optional[int] = None
    """Samples after which a probe ends in any case; None takes a tenth of the training."""
    probe_eval_samples: int = 256
    """Validation rows of a probe's and a calibration's evaluations."""
    calibration_batch_sizes: Tuple[int, ...] = ()
    """Batch sizes of each device, ascending: a few steps of each are measured, and nothing is trained."""
    calibration_seconds: float = 2.0
    """How long the steps of a batch size are measured, about."""
    target_metric: Optional[str] = None
    """Metric whose target is timed, such as `eval_accuracy`."""
    target_value: Optional[float] = None
    """Value to reach."""
    target_direction: Optional[str] = None
    """min: at or below the value; max: at or above; by default min for losses and perplexity, max for others."""
    target_stop: bool = False
    """End the training where the target is reached."""


FIELDS = {field.name: field for field in dataclasses.fields(Arguments)}


def parse(words: Sequence[str]) -> Arguments:
    """Return the arguments. Raises `ArgumentError` with the name, the value and the rule."""
    arguments = Arguments(**{name: _value(name, text) for name, text in _pairs(words)})
    _check_together(arguments)
    return arguments


def _pairs(words: Sequence[str]) -> List[Tuple[str, str]]:
    pairs = []
    for at in range(0, len(words), 2):
        name = words[at][2:]
        if not words[at].startswith("--") or name not in FIELDS:
            raise ArgumentError(f"unknown argument {words[at]!r}.{_nearest(name)}")
        if at + 1 == len(words):
            raise ArgumentError(f"argument {name} has no value")
        pairs.append((name, words[at + 1]))
    return pairs


def _nearest(name: str) -> str:
    matches = difflib.get_close_matches(name, list(FIELDS), n=1, cutoff=0.6)
    return f" Did you mean '--{matches[0]}'?" if matches else ""


def _value(name: str, text: str) -> Any:
    words, convert = CONVERSIONS[FIELDS[name].type]
    try:
        value = convert(text)
    except ValueError:
        raise ArgumentError(f"{name} is {text!r}: it must be {words}") from None
    if name in CHOICES and value not in CHOICES[name]:
        raise ArgumentError(f"{name} is {text!r}: it must be one of {', '.join(CHOICES[name])}")
    rule, holds = RULES.get(name, ("", lambda _: True))
    if not holds(value):
        raise ArgumentError(f"{name} is {text!r}: it must be {rule}")
    return value


def _lengths(text: str) -> Tuple[int, ...]:
    lengths = tuple(int(part) for part in text.split(",") if part.strip())
    if any(length < 1 for length in lengths) or list(lengths) != sorted(set(lengths)):
        raise ValueError(text)
    return lengths


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


TEXT = ("text", str)
WHOLE = ("a whole number", int)
NUMBER = ("a finite number", _number)

CONVERSIONS: Dict[Any, Tuple[str, Callable[[str], Any]]] = {
    str: TEXT,
    Optional[str]: TEXT,
    int: WHOLE,
    Optional[int]: WHOLE,
    float: NUMBER,
    Optional[float]: NUMBER,
    bool: ("True or False", _truth),
    Tuple[int, ...]: ("ascending whole numbers, such as 16,32,64", _lengths),
}


def _check_together(arguments: Arguments) -> None:
    for name in ("eval", "save"):
        if getattr(arguments, f"{name}_strategy") == "steps" and getattr(arguments, f"{name}_steps") is None:
            raise ArgumentError(f"{name}_steps is not given: {name}_strategy steps needs it")
    _check_best(arguments)
    if arguments.padding == "buckets" and not arguments.bucket_lengths:
        raise ArgumentError("bucket_lengths is not given: padding buckets needs it")
    if arguments.push_to_hub is not None and not arguments.save_model:
        raise ArgumentError("push_to_hub needs the trained model, and save_model is False")
    if arguments.calibration_batch_sizes and (arguments.probe_precision or arguments.push_to_hub):
        other = "probe_precision" if arguments.probe_precision else "push_to_hub"
        raise ArgumentError(f"calibration_batch_sizes and {other} exclude each other: a calibration trains nothing")
    if (arguments.target_metric is None) != (arguments.target_value is None):
        raise ArgumentError("target_metric and target_value must be given together")
    if arguments.target_stop and arguments.target_metric is None:
        raise ArgumentError("target_stop is True, and there is no target_metric to stop at")


def _check_best(arguments: Arguments) -> None:
    evaluates = (arguments.eval_strategy, arguments.eval_strategy == "steps" and arguments.eval_steps)
    saves = (arguments.save_strategy, arguments.save_strategy == "steps" and arguments.save_steps)
    if arguments.best_metric is not None and evaluates != saves:
        raise ArgumentError(
            f"best_metric is {arguments.best_metric!r}: every evaluation needs its checkpoint, so save_strategy and "
            "save_steps must be the same as eval_strategy and eval_steps"
        )
