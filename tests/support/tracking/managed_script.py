"""Experiment and script of a managed tracking server."""

from __future__ import annotations

SCRIPT = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int)
batch = parser.parse_args().batch
for step in range(1, 4):
    print(f"step={step} samples={step * 8} loss={1 / step / batch:.6f}", flush=True)
print("eval_loss=0.25")
"""


EXPERIMENT = """\
script:
  source: code
  hyperparameters: {batch: $batch_size}
  metrics: {step: 'step=(\\d+)', samples: 'samples=(\\d+)', loss: ' loss=([0-9.]+)', eval_loss: 'eval_loss=(.*)'}
compare:
  arms: [{batch_size: 4}, {batch_size: 8}]
  repeats: 2
"""
