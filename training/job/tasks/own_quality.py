"""A user's own function that scores the evaluations: the field `quality` of an experiment.

The function gets the evaluated rows (`Scorer.rows`). It returns a number, the score, or a dictionary of numbers.
`score` (higher is better) or `error` (lower is better) must be among them; the other ones are only reported.
"""

import importlib.util
import math
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from training.job.processes import ranks
from training.job.processes.reporting import ArgumentError
from training.job.tasks import METRICS_BY_NAME, OWN_METRICS

TRIED_ROWS = 64
"""Most rows on which the function is tried before the training."""
PREFIX = "eval_"
JUDGED = tuple(metric.name[len(PREFIX) :] for metric in OWN_METRICS)
RULE = f"it must return a finite number, or a dictionary of finite numbers with {' or '.join(map(repr, JUDGED))}"
NOT_FREE = ("loss", "runtime", "samples_per_second", "steps_per_second")
"""Names of Trainer's own metrics, without the prefix."""


class OwnQuality:
    """The function, from its file. Raises `ArgumentError` with the file and the line for all that goes wrong in it."""

    def __init__(self, folder: Path, reference: str, needed: Collection[str | None] = ()) -> None:
        """Import the file. `reference` is `FILE.py:FUNCTION`; `needed` are metrics of a target or of the best model."""
        file, _, name = reference.rpartition(":")
        self._path, self._reference = folder / file, reference
        self._needed = [metric.name[len(PREFIX) :] for metric in OWN_METRICS if metric.name in needed]
        spec = importlib.util.spec_from_file_location(f"own_quality_{self._path.stem}", str(self._path))
        assert spec, "the experiment's schema takes only Python files"
        assert spec.loader, "a Python file has a loader"
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # data classes look it up
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise self._failure(error) from error
        self._function: Callable[[list[dict[str, Any]]], Any] = getattr(module, name)

    def __call__(self, rows: list[dict[str, Any]], reported: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of the rows, without the prefix `eval_`; `reported` are the task's own.

        All processes call it with equal rows. The first one's metrics count, so that they stop at the same step even if
        the function draws random numbers.
        """
        try:
            result = self._function(rows)
        except Exception as error:
            raise self._failure(error) from error
        values = {str(name): _number(each) for name, each in _named(result).items()}
        wrong = next((name for name, value in values.items() if value is None), None)
        if wrong is not None:
            raise self._refusal(f"returned {_named(result)[wrong]!r:.80} for {wrong!r}")
        missing = [name for name in self._needed if name not in values]
        if not set(JUDGED) & set(values) or missing:
            wanted = f", and the experiment needs {missing[0]!r}" if missing else ""
            raise self._refusal(f"returned {', '.join(map(repr, values)) or 'nothing'}{wanted}")
        known = {*reported, *NOT_FREE, *(name[len(PREFIX) :] for name in METRICS_BY_NAME)} - set(JUDGED)
        taken = next((name for name in values if name in known), None)
        if taken is not None:
            raise self._refusal(f"returned {taken!r}, the name of a metric that jobs report themselves: rename it")
        made = {name: value for name, value in values.items() if value is not None}
        return ranks.gather(made)[0]

    def _failure(self, error: Exception) -> ArgumentError:
        lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(self._path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        text = (str(error).strip().splitlines() or [""])[0]
        return ArgumentError(
            f"quality {self._reference} failed in {self._path.name} line {line}: {type(error).__name__}: {text}"
        )

    def _refusal(self, problem: str) -> ArgumentError:
        line = getattr(getattr(self._function, "__code__", None), "co_firstlineno", 1)
        return ArgumentError(f"quality {self._reference} ({self._path.name} line {line}) {problem}; {RULE}")


def _named(result: Any) -> dict[Any, Any]:
    return result if isinstance(result, dict) else {JUDGED[0]: result}


def _number(value: Any) -> float | None:
    """Return a finite number of Python, NumPy or torch as a float; None for anything else."""
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # an array or a tensor of several numbers
            return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
