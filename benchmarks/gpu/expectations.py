"""Compare the events of a job on a GPU with what it must report. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.paths import AMPERE, Cards, GpuPath
from training.contract.events import Event
from training.contract.failures import Failure

CHECKED_FIELDS = ("precision", "attention", "padding", "kernels", "compile_scope", "compile_mode", "sharding")
"""Settings for which a job must report the value that the path sets."""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The end and the events of a job."""

    failure: Failure | None
    """Class and reason; None if the job completed."""
    events: Sequence[Event]

    def first(self, kind: str) -> Mapping[str, Any]:
        """Return the fields of the first event of a kind; empty without one."""
        return next((each.fields for each in self.events if each.kind == kind), {})

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the job's result."""
        metrics: Mapping[str, float] = self.first("result").get("metrics", {})
        return metrics


def differences(path: GpuPath, reported: Reported, cards: Cards, reference_loss: float | None) -> list[str]:
    """Return a sentence for each expectation that does not hold."""
    kind = reported.failure.failure_class if reported.failure else ""
    if kind != path.failure:
        ending = f"ended with {kind}: {reported.failure.message}" if reported.failure else "completed"
        return [f"{path.failure or 'a completed job'} was expected, but it {ending}"]
    if path.failure:
        return []
    if path.too_large:
        return _calibration(path.too_large, reported)
    return [
        *_device(path, reported, cards),
        *_settings(path, reported, cards),
        *_results(path, reported, reference_loss),
    ]


def _device(path: GpuPath, reported: Reported, cards: Cards) -> list[str]:
    device = reported.first("start").get("device", {})
    kind, count, expected = device.get("kind", "no device"), device.get("count"), path.processes
    pairs = ((kind, cards.kind), (f"{count} devices", f"{expected} devices"))
    return [f"it ran on {used} and not on {needed}" for used, needed in pairs if used != needed]


def _settings(path: GpuPath, reported: Reported, cards: Cards) -> list[str]:
    fields, used = path.job_fields(), reported.first("start").get("hyperparameters", {})
    expected = {name: fields[name] for name in CHECKED_FIELDS if name in fields}
    if fields["attention"] == "auto":
        del expected["attention"]
    if fields["precision"] == "auto" and cards.kind == "cuda":
        expected["precision"] = "bf16" if cards.capability >= AMPERE else "fp16"
    elif fields["precision"] == "auto":
        del expected["precision"]
    return [
        f"{name} was {used.get(name)} and not {value}" for name, value in expected.items() if used.get(name) != value
    ]


def _results(path: GpuPath, reported: Reported, reference_loss: float | None) -> list[str]:
    metrics, sentences = reported.metrics, []
    loss = metrics.get("eval_loss", math.nan)
    if not math.isfinite(loss):
        sentences.append(f"the evaluation loss is {loss}")
    elif reference_loss is not None and path.loss_margin is not None and abs(loss - reference_loss) > path.loss_margin:
        sentences.append(f"the evaluation loss is {loss:.4f}; expected {reference_loss:.4f} ± {path.loss_margin:g}")
    utilisation = metrics.get("throughput/mfu")
    if utilisation is not None and not 0 < utilisation <= 1:
        sentences.append(f"throughput/mfu is {utilisation:.3g}, which is not a share of the card's peak")
    has_compiled = any(event.kind == "phase" and event.fields.get("phase") == "compile" for event in reported.events)
    if path.is_compiled and not has_compiled:
        sentences.append("nothing was compiled")
    return sentences


def _calibration(too_large: int, reported: Reported) -> list[str]:
    fits = {
        event.fields["step"]: bool(event.fields["values"]["calibration/fits"])
        for event in reported.events
        if event.kind == "metric" and "calibration/fits" in event.fields["values"]
    }
    wrong = [f"batch size {too_large:,} was expected not to fit"] if fits.get(too_large, True) else []
    return wrong if any(fits.values()) else [*wrong, "no batch size fits"]
