"""Fit a line with the settings of a file, which `--name=value` changes; log as nanoGPT does."""

import json
import sys
from pathlib import Path

settings = {"batch_size": 1, "learning_rate": 0.5, "max_iters": 10, "eval_interval": 10, "log_interval": 1}
for argument in sys.argv[1:]:
    if not argument.startswith("--"):
        print(f"Overriding config with {argument}:")
        settings.update(json.loads(Path(argument).read_text("utf-8")))
        continue
    name, value = argument[2:].split("=")
    assert name in settings, f"Unknown config key: {name}"
    settings[name] = json.loads(value)
    print(f"Overriding: {name} = {value}")

weight = 0.0
for iteration in range(int(settings["max_iters"]) + 1):
    inputs = [(iteration + at) % 7 / 7 for at in range(int(settings["batch_size"]))]
    loss = sum((weight * x - 3 * x) ** 2 for x in inputs) / len(inputs)
    if iteration % settings["eval_interval"] == 0:
        print(f"step {iteration}: train loss {loss:.4f}, val loss {(weight - 3) ** 2:.4f}")
    if iteration % settings["log_interval"] == 0:
        print(f"iter {iteration}: loss {loss:.4f}, time 1.00ms, mfu -100.00%")
    weight -= settings["learning_rate"] * sum(2 * x * (weight * x - 3 * x) for x in inputs) / len(inputs)
