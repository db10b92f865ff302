"""Lines of pytorch/examples' word_language_model, and of the many scripts that copied them.

`| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.30 | loss  7.60 | ppl  2000.00`, and at the end of an epoch
`| end of epoch   1 | time: 36.10s | valid loss  5.50 | valid ppl   244.69`. Batches count from 0, and every one has all
columns of the data. The announced number of batches is rounded down: an epoch may end with one more batch of fewer
rows, which only a line about it shows.
"""

from __future__ import annotations

import re

from tracking.recording.script_formats.reading import NUMBER, Reading, Unit

_N = rf"\s*({NUMBER})"
_BATCH = re.compile(rf"\| epoch\s+(\d+) \|\s*(\d+)/\s*(\d+) batches \| lr{_N} \| ms/batch{_N} \| loss{_N} \| ppl{_N}")
_EPOCH = re.compile(rf"\| end of epoch\s+(\d+) \| time:{_N}s \| valid loss{_N} \| valid ppl{_N}")
_TEST = re.compile(rf"\| End of training \| test loss{_N} \| test ppl{_N}")


class WordLanguageModel:
    """Reader of these lines."""

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._batches: int | None = None
        """Batches of an epoch."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a line; None for other lines."""
        if match := _BATCH.search(part):
            self._batches = max(self._batches or 0, int(match[3]), int(match[2]) + 1)
            step = (int(match[1]) - 1) * self._batches + int(match[2])
            values = {"learning_rate": match[4], "loss": match[6], "perplexity": match[7]}
            return Reading(values=_floats(values), step=step, steps_done=step + 1)
        if match := _EPOCH.search(part):
            end = None if self._batches is None else int(match[1]) * self._batches
            values = {"eval_loss": match[3], "eval_perplexity": match[4]}
            return Reading(values=_floats(values), step=end, is_evaluation=True)
        if match := _TEST.search(part):
            return Reading(values=_floats({"test_loss": match[1], "test_perplexity": match[2]}), is_evaluation=True)
        return None


def _floats(texts: dict[str, str]) -> dict[str, float]:
    return {name: float(text) for name, text in texts.items()}
