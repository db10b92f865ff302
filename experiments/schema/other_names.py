"""Names of an experiment's fields in Trainer, in the examples of transformers and in SageMaker's SDK."""

from __future__ import annotations

from collections.abc import Collection

from training.contract.errors import nearest_name

OTHER_NAMES = {
    "learning_rate": "base_learning_rate",
    "lr": "base_learning_rate",
    "lr_scheduler_type": "lr_scheduler",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "per_device_eval_batch_size": "eval_batch_size",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "warmup_steps": "warmup_samples",
    "warmup_ratio": "warmup_samples",
    "optim": "optimizer",
    "fp16": "precision",
    "bf16": "precision",
    "torch_compile": "compiler",
    "torch_compile_mode": "compile_mode",
    "attn_implementation": "attention",
    "use_liger_kernel": "kernels",
    "fsdp": "sharding",
    "group_by_length": "length_grouping",
    "pad_to_max_length": "padding",
    "max_seq_length": "max_length",
    "dataloader_num_workers": "dataloader_workers",
    "dataloader_drop_last": "drop_last",
    "metric_for_best_model": "best_metric",
    "model_name": "model",
    "model_name_or_path": "model",
    "tokenizer_name": "tokenizer",
    "dataset_name": "data.hub.name",
    "dataset_config_name": "data.hub.config",
    "train_file": "data.train",
    "validation_file": "data.validation",
    "text_column_name": "data.columns.text",
    "label_column_name": "data.columns.label",
    "max_train_samples": "data.train_rows",
    "max_eval_samples": "data.validation_rows",
    "hub_model_id": "push_to_hub.repository",
    "max_run": "machine.max_run_seconds",
    "max_wait": "machine.max_wait_seconds",
    "use_spot_instances": "machine.spot",
    "volume_size": "machine.volume_gib",
    "keep_alive_period_in_seconds": "machine.keep_alive_seconds",
}
"""Name elsewhere -> field of an experiment."""

FORMER_FIELDS = {
    "allocator": "Every job keeps the memory that a step has freed.",
    "compile_cache": "Jobs keep what they compile; to compile again, delete compile-cache in the state folder.",
    "dropout": "PyTorch draws the random numbers of dropout.",
}
"""Field of earlier versions -> what holds instead."""


def meant_field(name: str, known: Collection[str]) -> str | None:
    """Return the field in `known` that a user most likely meant by `name`, or None if no name is close.

    A name that is right but for its section counts first, then the name of another tool, then the closest spelling.
    """
    leaf = name.rpartition(".")[2]
    inner = next((field for field in known if field.rpartition(".")[2] == leaf), None)
    match = inner or (leaf if leaf in OTHER_NAMES else nearest_name(name, [*known, *OTHER_NAMES]))
    return OTHER_NAMES.get(match, match) if match else None
