"""Names that users bring from Trainer, TRL, Axolotl, SageMaker or the Hub, and what does the same here.

Messages about unknown fields, options, tasks and commands use this one table. docs/supported.md is the page for users.
"""

from __future__ import annotations

from collections.abc import Iterable

from training.contract.errors import nearest
from training.job.tasks import TASKS

OTHER_NAMES = {
    **dict.fromkeys(("learning_rate", "lr"), "base_learning_rate"),
    **dict.fromkeys(("train_batch_size", "per_device_train_batch_size", "micro_batch_size"), "batch_size"),
    "per_device_eval_batch_size": "eval_batch_size",
    **dict.fromkeys(("num_train_epochs", "num_epochs"), "epochs"),
    **dict.fromkeys(("warmup_steps", "warmup_ratio"), "warmup_samples"),
    "lr_scheduler_type": "lr_scheduler",
    "optim": "optimizer",
    **dict.fromkeys(("bf16", "fp16", "tf32", "mixed_precision", "torch_dtype"), "precision"),
    "torch_compile": "compiler",
    "torch_compile_mode": "compile_mode",
    "attn_implementation": "attention",
    "use_liger_kernel": "kernels",
    **dict.fromkeys(
        ("lora", "qlora", "peft", "use_peft", "load_in_4bit", "load_in_8bit", "peft_config"), "adapter.method"
    ),
    **dict.fromkeys(("lora_r", "lora_rank"), "adapter.rank"),
    "lora_alpha": "adapter.alpha",
    "lora_dropout": "adapter.dropout",
    **dict.fromkeys(("lora_target_modules", "target_modules"), "adapter.targets"),
    **dict.fromkeys(("fsdp", "fsdp_config"), "sharding"),
    "group_by_length": "length_grouping",
    "pad_to_max_length": "padding",
    **dict.fromkeys(("max_seq_length", "max_seq_len", "model_max_length", "sequence_len", "cutoff_len"), "max_length"),
    "sample_packing": "packing",
    "dataloader_drop_last": "drop_last",
    "dataloader_num_workers": "dataloader_workers",
    "evaluation_strategy": "eval_strategy",
    **dict.fromkeys(("metric_for_best_model", "load_best_model_at_end"), "best_metric"),
    "compute_metrics": "quality",
    "early_stopping_patience": "target.stop",
    **dict.fromkeys(("null_score_diff_threshold", "version_2_with_negative"), "null_threshold"),
    **dict.fromkeys(("model_name_or_path", "base_model"), "model"),
    **dict.fromkeys(("dataset_name", "datasets"), "data.hub.name"),
    "dataset_config_name": "data.hub.config",
    "train_file": "data.train",
    "validation_file": "data.validation",
    "val_set_size": "data.validation_share",
    **dict.fromkeys(("text_column_name", "dataset_text_field"), "data.columns.text"),
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
"""Name elsewhere -> field of an experiment, unless its spelling is close."""
OTHER_TASKS = {
    name: task.name
    for task in reversed(TASKS.values())
    for name in (task.pipeline, *task.other_names)
    if name not in TASKS
}
"""Name elsewhere, with hyphens -> task; the first of several."""
SCRIPT = "a script can: see docs/scripts.md, with experiments/plain_trainer.yaml as an example"
SENTENCES = {
    **dict.fromkeys(
        ("dpo", "rlhf", "ppo", "grpo", "orpo", "kto", "reward-model", "fill-mask", "mlm", "object-detection"),
        f"No task does it; {SCRIPT}.",
    ),
    "dry-run": "Use `trainfare plan VERB` with the same options.",
    "deepspeed": f"Set sharding to 'fsdp2'; for DeepSpeed itself, {SCRIPT}.",
    "gradient-checkpointing": f"No field sets it; {SCRIPT}.",
    **dict.fromkeys(
        ("report-to", "wandb", "wandb-project", "tensorboard", "run-name"),
        f"Jobs report to MLflow (`trainfare ui`). To another tracker, {SCRIPT}.",
    ),
    **dict.fromkeys(("output-dir", "save-safetensors"), "MLflow has the models: see log_model and docs/models.md."),
    "resume-from-checkpoint": "With save_strategy, an interrupted job resumes by itself: see docs/operations.md.",
}
"""Name elsewhere, with hyphens -> what to do, where no single field does it."""


def advice(name: str) -> str:
    """Return a sentence, after a blank, on a name that other tools have; empty for a name that is not known."""
    plain = name.lower().replace("_", "-")
    if (task := OTHER_TASKS.get(plain)) is not None:
        return f" Set task to {task!r}: see docs/tasks.md."
    return f" {SENTENCES[plain]}" if plain in SENTENCES else ""


def hint(name: str, known: Iterable[str]) -> str:
    """Return the advice on a name, or else the closest known name; empty if none is close."""
    return advice(name) or nearest(name, known)
