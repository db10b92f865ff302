"""Fine-tune a random Llama by TRL with a LoRA adapter of peft. The tokenizer comes from a folder."""

import pathlib
import sys

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.eos_token = tokenizer.sep_token
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    pad_token_id=tokenizer.pad_token_id,
)
trainer = SFTTrainer(
    LlamaForCausalLM(config),
    SFTConfig(
        output_dir=str(pathlib.Path.cwd() / "out"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=12,
        max_length=32,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    ),
    train_dataset=Dataset.from_dict({"text": [f"some text with number {n}" for n in range(64)]}),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
trainer.train()
print("expected", trainer.state.global_step, 24, 96)
