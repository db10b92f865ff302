"""TRL's SFTTrainer on conversations: packed by best fit, with the loss on the assistant's tokens alone."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

CHATML = (
    "{%- for message in messages %}{{- '<|im_start|>' + message['role'] + '\\n' }}"
    "{%- if message['role'] == 'assistant' %}"
    "{%- generation %}{{- message['content'] + '<|im_end|>\\n' }}{%- endgeneration %}"
    "{%- else %}{{- message['content'] + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""ChatML with the tags that TRL needs to find the answers."""


def trainer(model_folder: str, rows: list[dict[str, Any]], training_arguments: dict[str, Any]) -> Trainer:
    """Return the trainer of `rows` with `messages`. `training_arguments` may have `max_length` and `packing`."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    if not tokenizer.chat_template:
        tokenizer.chat_template = CHATML
    defaults = {"max_length": 512, "packing": True, "packing_strategy": "bfd"}
    defaults |= {"gradient_checkpointing": False, "bf16": False}
    arguments = SFTConfig(**{**defaults, **training_arguments}, assistant_only_loss=True)
    return SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_folder, dtype="float32"),
        args=arguments,
        train_dataset=Dataset.from_list([{"messages": row["messages"]} for row in rows]),
        processing_class=tokenizer,
    )
