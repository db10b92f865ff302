"""Fit a number with the settings in a configuration file, as tools such as Axolotl take it."""

import json
import pathlib
import sys

import yaml

config = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
print(f"CONFIG {json.dumps(config, sort_keys=True)}")
weight = 0.0
for step in range(1, config["steps"] + 1):
    weight -= config["optimizer"]["learning_rate"] * 2 * (weight - 1)
    print(f"step {step} loss {(weight - 1) ** 2}")
print(f"eval_loss {(weight - 1) ** 2}")
(pathlib.Path(config["output_dir"]) / "weight.txt").write_text(str(weight))
