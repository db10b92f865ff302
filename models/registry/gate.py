"""Quality gate: checks that a model must pass before it replaces the model in use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Literal, get_args

from models.lookup.evaluation import choose_measure, is_worse
from models.lookup.trained_model import TrainedModel
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


@dataclass(frozen=True, kw_only=True)
class Objection:
    """A failed check."""

    name: GateCheck
    """Name of the check."""
    sentence: str
    """Predicate of a sentence whose subject is the job."""


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
    raised = objections(candidate, in_use)
    against = [each for each in raised if each.name not in allowed]
    if not against:
        return None
    # Including the checks that were already skipped, so that this list is enough by itself.
    words = ",".join(dict.fromkeys(each.name for each in raised))
    sentence = " and ".join(each.sentence for each in against)
    return f"Job {candidate.job_name} (run {candidate.run_id}) {sentence}. To accept it anyway, use --allow {words}."


def check(candidate: TrainedModel, in_use: ModelInUse | None, allowed: Set[GateCheck] = frozenset()) -> None:
    """Raise `NotGoodEnough` if `refusal` returns a sentence."""
    if sentence := refusal(candidate, in_use, allowed):
        raise NotGoodEnough(sentence)


def objections(candidate: TrainedModel, in_use: ModelInUse | None) -> list[Objection]:
    """Return all checks that a model fails."""
    reasons = []
    if candidate.status != "FINISHED":
        why = f" ({candidate.failure})" if candidate.failure else ""
        reasons.append(
            Objection(
                name="failed", sentence=f"ended {candidate.status}{why}" if _has_ended(candidate) else "has not ended"
            )
        )
    if not candidate.metrics:
        reasons.append(Objection(name="unevaluated", sentence="has no evaluation metric"))
    if in_use and in_use.trained is None:
        sentence = f"cannot be compared with {in_use.title}, whose run is missing"
        reasons.append(Objection(name="worse", sentence=sentence))
    elif in_use and in_use.trained and in_use.trained.run_id != candidate.run_id:
        reasons += _compare(candidate, in_use.trained, in_use.title)
    return reasons


def _compare(candidate: TrainedModel, other: TrainedModel, title: str) -> Iterable[Objection]:
    if not candidate.metrics:
        return [Objection(name="worse", sentence=f"cannot be compared with {title}")]
    measure = choose_measure([candidate.metrics, other.metrics], candidate.target_metric)
    if measure is None:
        sentence = f"has {_metric_names(candidate)}, and {title} has {_metric_names(other)}: they cannot be compared"
        return [Objection(name="worse", sentence=sentence)]
    mine, others = candidate.metrics[measure.column], other.metrics[measure.column]
    values = f"{measure.column} {_distinguishable(mine, others)} of {title}"
    if not is_same_data(candidate, other):
        sentence = f"was evaluated on different data than {title}, so {values} cannot be compared"
        return [Objection(name="other-data", sentence=sentence)]
    return [Objection(name="worse", sentence=f"is worse: {values}")] if is_worse(mine, others, measure) else []


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


def _metric_names(model: TrainedModel) -> str:
    return ", ".join(sorted(model.metrics)) or "no evaluation metric"


def _has_ended(model: TrainedModel) -> bool:
    return model.status not in ("RUNNING", "SCHEDULED")
