"""Convert the job's arguments to Trainer's, under the names of the installed version of transformers."""

import inspect
import math
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch
from transformers import TrainingArguments
from transformers.training_args import OptimizerNames

from training.job.settings.arguments import Arguments

RENAMED = {"eval_strategy": "evaluation_strategy", "use_cpu": "no_cuda", "ddp_backend": "xpu_backend"}
"""Newest name -> earlier name."""

FIXED: Dict[str, Any] = {
    "logging_first_step": True,
    # The filter reads the loss at every step, which waits for the device, and hides NaN losses.
    "logging_nan_inf_filter": False,
    "ddp_find_unused_parameters": False,
    "remove_unused_columns": False,
    "disable_tqdm": True,
    # Older versions otherwise log every internal step.
    "log_level": "warning",
    "report_to": [],
}
"""Arguments that are the same in every job."""


def trainer_arguments(
    arguments: Arguments, folder: Path, precision: str, device_kind: str, processes: int, label_names: List[str]
) -> TrainingArguments:
    """Return Trainer's arguments. `folder` is for checkpoints; `label_names` are the model's label inputs."""
    evaluates_at_end = arguments.eval_strategy == "end"
    newest: Dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": arguments.batch_size,
        "per_device_eval_batch_size": arguments.eval_batch_size,
        "gradient_accumulation_steps": arguments.gradient_accumulation_steps,
        "learning_rate": arguments.learning_rate,
        "adam_beta1": arguments.adam_beta1,
        "adam_beta2": arguments.adam_beta2,
        "adam_epsilon": arguments.adam_epsilon,
        "weight_decay": arguments.weight_decay,
        "max_grad_norm": arguments.max_grad_norm,
        "lr_scheduler_type": _scheduler(arguments),
        "warmup_steps": math.ceil(arguments.warmup_samples / global_batch_size(arguments, processes)),
        # Trainer ignores the epochs if the steps are set. -1 means that they are not set.
        "num_train_epochs": arguments.epochs or 1.0,
        "max_steps": arguments.max_steps or -1,
        "seed": arguments.seed,
        "logging_steps": arguments.logging_steps,
        "eval_strategy": "no" if evaluates_at_end else arguments.eval_strategy,
        "eval_steps": arguments.eval_steps,
        "save_strategy": "no" if arguments.save_strategy == "none" else arguments.save_strategy,
        "save_steps": arguments.save_steps or 500,
        "fp16": precision == "fp16",
        # The layers that do not compute in 8 bits do so in bf16.
        "bf16": precision in ("bf16", "fp8"),
        "optim": _optimizer(arguments.optimizer, device_kind),
        "label_names": label_names,
        "dataloader_num_workers": workers(arguments.dataloader_workers, device_kind),
        "use_cpu": device_kind == "cpu",
        "ddp_backend": "gloo" if device_kind == "cpu" and processes > 1 else None,
        # Pinned memory only speeds up copies to a GPU.
        "dataloader_pin_memory": device_kind == "cuda",
        **FIXED,
    }
    renamed = _as_installed(newest)
    if renamed.get("xpu_backend"):
        # Versions before 4.25 refuse gloo, but accept a process group that already exists.
        torch.distributed.init_process_group(renamed["xpu_backend"])
    return TrainingArguments(**renamed)


def global_batch_size(arguments: Arguments, processes: int) -> int:
    """Return the samples of one optimizer step, over all devices."""
    return arguments.batch_size * arguments.gradient_accumulation_steps * processes


def _as_installed(newest: Dict[str, Any]) -> Dict[str, Any]:
    known = inspect.signature(TrainingArguments.__init__).parameters
    return {name if name in known else RENAMED.get(name, name): value for name, value in newest.items()}


def _scheduler(arguments: Arguments) -> str:
    if arguments.lr_scheduler == "constant" and arguments.warmup_samples:
        return "constant_with_warmup"
    return arguments.lr_scheduler


def workers(requested: Optional[int], device_kind: str) -> int:
    """Return the number of processes that build batches. On a CPU, they would compete with training for the cores."""
    if requested is not None:
        return requested
    return 2 if device_kind == "cuda" else 0


def _optimizer(requested: str, device_kind: str) -> str:
    """Return Trainer's name for fused AdamW if torch has it, else for plain AdamW.

    torch has it on GPUs since 2.0 and on CPUs since 2.4. Trainer accepts the name since transformers 4.25.
    """
    if requested == "adamw":
        return "adamw_torch"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    fused_since = {"cuda": (2, 0), "cpu": (2, 4)}.get(device_kind)
    known = "adamw_torch_fused" in [name.value for name in OptimizerNames]
    return "adamw_torch_fused" if known and fused_since and version >= fused_since else "adamw_torch"
