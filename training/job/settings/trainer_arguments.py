"""Convert the job's arguments to Trainer's, under the names of the installed version of transformers."""

import inspect
import math
from typing import Any, Dict

import torch
from transformers import TrainingArguments
from transformers.training_args import OptimizerNames

from training.job.settings.job_settings import Settings

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

SAME_NAME = (
    *("gradient_accumulation_steps", "learning_rate", "adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay"),
    *("max_grad_norm", "seed", "logging_steps", "eval_steps"),
)
"""Arguments that have the job's name and value."""


def trainer_arguments(settings: Settings) -> TrainingArguments:
    """Return Trainer's arguments for a job."""
    arguments, device_kind = settings.arguments, settings.device_kind
    scheduler, workers = str(arguments.lr_scheduler), arguments.dataloader_workers
    if scheduler == "constant" and arguments.warmup_samples:
        scheduler = "constant_with_warmup"
    if workers is None:
        # On a CPU, data workers would compete with training for the cores.
        workers = 2 if device_kind == "cuda" else 0
    newest: Dict[str, Any] = {
        # Trainer writes only checkpoints to this folder.
        "output_dir": str(settings.unfinished_checkpoints or settings.folders.output_data),
        "per_device_train_batch_size": arguments.batch_size,
        "per_device_eval_batch_size": arguments.eval_batch_size,
        "lr_scheduler_type": scheduler,
        "warmup_steps": math.ceil(arguments.warmup_samples / settings.global_batch_size),
        # Trainer ignores the epochs if the steps are set. -1 means that they are not set.
        "num_train_epochs": arguments.epochs or 1.0,
        "max_steps": arguments.max_steps or -1,
        "eval_strategy": "no" if arguments.eval_strategy == "end" else arguments.eval_strategy,
        "save_strategy": "no" if arguments.save_strategy == "none" else arguments.save_strategy,
        "save_steps": arguments.save_steps or 500,
        "fp16": settings.precision == "fp16",
        # The layers that do not compute in 8 bits do so in bf16.
        "bf16": settings.precision in ("bf16", "fp8"),
        "optim": _optimizer(arguments.optimizer, device_kind),
        "label_names": list(settings.task.label_inputs),
        "dataloader_num_workers": workers,
        "use_cpu": device_kind == "cpu",
        "ddp_backend": "gloo" if device_kind == "cpu" and settings.processes > 1 else None,
        # Pinned memory only speeds up copies to a GPU.
        "dataloader_pin_memory": device_kind == "cuda",
        **{name: getattr(arguments, name) for name in SAME_NAME},
        **FIXED,
    }
    known = inspect.signature(TrainingArguments.__init__).parameters
    renamed = {name if name in known else RENAMED.get(name, name): value for name, value in newest.items()}
    if renamed.get("xpu_backend"):
        # Versions before 4.25 refuse gloo, but accept a process group that already exists.
        torch.distributed.init_process_group(renamed["xpu_backend"])
    return TrainingArguments(**renamed)


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
