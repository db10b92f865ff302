"""Values that each argument can have."""

from typing import Any, Callable, Dict, Sequence, Tuple

from compilation.compilers import COMPILERS
from data.padding import PADDING_KINDS
from tasks import TASKS

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
    "max_length": AT_LEAST_1,
    "batch_size": AT_LEAST_1,
    "eval_batch_size": AT_LEAST_1,
    "gradient_accumulation_steps": AT_LEAST_1,
    "learning_rate": ABOVE_0,
    "adam_beta1": BETA,
    "adam_beta2": BETA,
    "adam_epsilon": ABOVE_0,
    "weight_decay": AT_LEAST_0,
    "max_grad_norm": AT_LEAST_0,
    "warmup_samples": AT_LEAST_0,
    "epochs": ABOVE_0,
    "max_steps": AT_LEAST_1,
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
