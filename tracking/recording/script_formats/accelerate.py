"""Evaluations as accelerate's examples print them: `epoch 0: {'accuracy': 0.81, 'f1': 0.87}`.

The line shows no step. It belongs to the step that the progress bar shows, if the script has one.
"""

from __future__ import annotations

import re

from tracking.recording.script_formats.reading import NUMBER, Reading, Unit

_EVALUATION = re.compile(r"\bepoch \d+: (\{'[^{}]*\})")
_ENTRY = re.compile(rf"'([A-Za-z_][\w.-]{{0,80}})': (?:\w[\w.]*\()?({NUMBER})[,)}}\s]")


class Accelerate:
    """Reader of these lines."""

    unit: Unit = "unknown"
    logged_batch_size = None

    def read(self, part: str) -> Reading | None:
        """Return the evaluation in a line; None for other lines."""
        match = _EVALUATION.search(part)
        values = {_evaluated(name): float(text) for name, text in _ENTRY.findall(match[1])} if match else {}
        return Reading(values=values, is_evaluation=True) if values else None


def _evaluated(name: str) -> str:
    return name if name.startswith("eval_") else f"eval_{name}"
