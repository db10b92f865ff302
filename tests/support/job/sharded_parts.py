"""Shard a saved model over processes and load it again: `sharded_parts.py FOLDER`, started by torchrun.

Rank 0 prints the number of values that each process holds, that of the whole model, and the names of weights that
differ from the saved ones after rank 0 has loaded them into the sharded model.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from transformers import BertForSequenceClassification

ROOT = Path(__file__).resolve().parents[3]


def main(folder: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from training.job.loop import sharding

    model = BertForSequenceClassification.from_pretrained(folder)
    whole = sum(parameter.numel() for parameter in model.parameters())
    sharding.shard(model, Accelerator(cpu=True))
    parts = [None, None]
    torch.distributed.all_gather_object(parts, sum(each.to_local().numel() for each in model.parameters()))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().zero_()
        # The parameters outside of the layers stay gathered after this.
        model.eval()(input_ids=torch.ones(1, 4, dtype=torch.long))
    is_first = os.environ["RANK"] == "0"
    sharding.load_weights(model, folder if is_first else None)
    weights = sharding.gathered_weights(model)
    if is_first:
        saved = load_file(folder / "model.safetensors")
        differing = [name for name, value in saved.items() if not torch.equal(weights[name], value)]
        print(json.dumps({"parts": parts, "whole": whole, "differing": differing}), flush=True)
    assert is_first or not weights
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Like train.py: shutting down Python can abort the process.
    os._exit(0)
