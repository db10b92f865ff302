"""Fit a number to the numbers of a file in a plain loop of PyTorch."""

import argparse
import os
import pathlib

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--output_dir", type=pathlib.Path)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
torch.manual_seed(args.seed)
numbers = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "numbers.txt"
data = [float(line) for line in numbers.read_text().splitlines()]
weight, samples = torch.zeros(1, requires_grad=True), 0
for start in range(0, len(data), args.batch_size):
    batch = torch.tensor(data[start : start + args.batch_size])
    loss = ((weight - batch) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    samples += len(batch)
    print(f"samples={samples} loss={loss.item():.6f}")
print(f"eval_loss={weight.item():.4f}")
assert args.output_dir == pathlib.Path(os.environ["SM_MODEL_DIR"]), args.output_dir
torch.save(weight, args.output_dir / "weight.pt")
