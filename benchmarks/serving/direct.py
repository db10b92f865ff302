"""`python -m benchmarks.serving.direct MODEL TEXTS`: call `transformers.pipeline` in a loop over all texts.

Runs the loop once for each line on standard input, and prints the seconds of every call as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from transformers import pipeline


def main(model: str, texts_file: str) -> None:
    """Load the model, warm up, and run a pass for each line read."""
    texts = json.loads(Path(texts_file).read_text())
    classify = pipeline("text-classification", model, dtype=torch.float32)
    for text in texts[:20]:
        classify(text)
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = []
        for text in texts:
            started = time.perf_counter()
            classify(text)
            seconds.append(time.perf_counter() - started)
        print(json.dumps({"from": 0.0, "to": sum(seconds), "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
