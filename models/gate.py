"""Quality gate: checks that a model must pass before it replaces the model in use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal, get_args

from models.quality import choose_measure, is_worse
from models.trained_model import TrainedModel
from training.contract.errors import InputError, NotGoodEnough, nearest

GateCheck = Literal["failed", "unevaluated", "worse", "other-data"]
GATE_CHECKS: tuple[GateCheck, ...] = get_args(GateCheck)
"""Checks that the option `allow` can skip. A model fails them if its run did not finish (failed), if it has no
evaluation (unevaluated), if it is worse than the model in use or cannot be compared with it (worse), or if it was
evaluated on different data (other-data)."""


@dataclass(frozen=True, kw_only=True)
class ModelInUse:
    """Model that an alias names at present."""

    trained: TrainedModel | None
    """None if its run was deleted permanently or is not recorded."""
    title: str
    """Name for messages, such as `version 3 of emotion (champion)`."""


def parse_allowed(text: str) -> frozenset[GateCheck]:
    """Return the checks named in a comma-separated list. Raises `InputError` for an unknown one."""
    words = [name for part in text.split(",") if (name := part.strip())]
    for name in words:
        if name not in GATE_CHECKS:
            raise InputError(
                f"allow: '{name}' is not a check. The checks are {', '.join(GATE_CHECKS)}.{nearest(name, GATE_CHECKS)}"
            )
    return frozenset(name for name in GATE_CHECKS if name in words)


def refusal(candidate: TrainedModel, in_use: ModelInUse | None, allowed: Set[GateCheck] = frozenset()) -> str | None:
    """Return one sentence on why a model must not replace the model in use; None if it may.

    A model is refused if its run is not FINISHED, if it has no evaluation, if it is worse than the model in use by the
    same metric on the same data, or if the two cannot be compared. A tie is not worse. The sentence names the checks to
    skip in order to accept the model anyway.
    """
    objections = list(_objections(candidate, in_use))
    against = [sentence for name, sentence in objections if name not in allowed]
    if not against:
        return None
    # Including the checks that were already skipped, so that this list is enough by itself.
    words = ",".join(dict.fromkeys(name for name, _ in objections))
    title = f"Job {candidate.job_name} (run {candidate.run_id})"
    return f"{title} {' and '.join(against)}. To accept it anyway, use --allow {words}."


def check(candidate: TrainedModel, in_use: ModelInUse | None, allowed: Set[GateCheck] = frozenset()) -> None:
    """Raise `NotGoodEnough` if `refusal` returns a sentence."""
    if sentence := refusal(candidate, in_use, allowed):
        raise NotGoodEnough(sentence)


def _objections(candidate: TrainedModel, in_use: ModelInUse | None) -> Iterator[tuple[GateCheck, str]]:
    """Yield all checks that a model fails, each with the predicate of a sentence whose subject is the job."""
    if candidate.status in ("RUNNING", "SCHEDULED"):
        yield "failed", "has not ended"
    elif candidate.status != "FINISHED":
        yield "failed", f"ended {candidate.status}" + (f" ({candidate.failure})" if candidate.failure else "")
    if not candidate.metrics:
        yield "unevaluated", "has no evaluation metric"
    if in_use is None or (in_use.trained and in_use.trained.run_id == candidate.run_id):
        return
    title, other = in_use.title, in_use.trained
    if other is None:
        yield "worse", f"cannot be compared with {title}, whose run is missing"
    elif not candidate.metrics:
        yield "worse", f"cannot be compared with {title}"
    elif (measure := choose_measure([candidate.metrics, other.metrics], candidate.target_metric)) is None:
        mine, others = (", ".join(sorted(each.metrics)) or "no evaluation metric" for each in (candidate, other))
        yield "worse", f"has {mine}, and {title} has {others}: they cannot be compared"
    else:
        value, other_value = candidate.metrics[measure.column], other.metrics[measure.column]
        values = f"{measure.column} {_distinguishable(value, other_value)} of {title}"
        if not is_same_data(candidate, other):
            yield "other-data", f"was evaluated on different data than {title}, so {values} cannot be compared"
        elif is_worse(value, other_value, measure):
            yield "worse", f"is worse: {values}"


def is_same_data(one: TrainedModel, other: TrainedModel) -> bool:
    """Return whether two models were evaluated on the same rows, according to their runs.

    If a run has no key for its evaluation rows, the keys of all data are compared.
    """
    if one.evaluation_key and other.evaluation_key:
        return one.evaluation_key == other.evaluation_key
    return bool(one.data_key) and one.data_key == other.data_key


def _distinguishable(value: float, other: float) -> str:
    """Return `0.89 against 0.9`, with enough digits to see the difference."""
    pairs = ((f"{value:.{digits}g}", f"{other:.{digits}g}") for digits in (4, 6, 9))
    mine, others = next((pair for pair in pairs if pair[0] != pair[1]), (repr(value), repr(other)))
    return f"{mine} against {others}"
