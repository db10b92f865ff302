"""The quality gate: whether a model may be put to use, in one sentence where it may not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Literal, get_args

from models.lookup.evaluation import is_worse, measure_of
from models.lookup.trained_model import TrainedModel
from training.contract.errors import InputError, NotGoodEnough, nearest

Word = Literal["failed", "unevaluated", "worse", "other-data"]
WORDS: tuple[Word, ...] = get_args(Word)
"""What can be allowed: a run that did not finish, a model without an evaluation, one that is worse than the model in
use or cannot be shown not to be, and one that was evaluated on other data than that."""


@dataclass(frozen=True, kw_only=True)
class InUse:
    """The model that an alias names now."""

    trained: TrainedModel | None
    """None where its run is gone for good or not named, so that nothing is known of it."""
    title: str
    """How people know it, such as `version 3 of emotion (champion)`."""


@dataclass(frozen=True, kw_only=True)
class Objection:
    """One thing that speaks against a model."""

    word: Word
    """That allows it."""
    told: str
    """The rest of a sentence that begins with the job's name."""


def allowed_words(text: str) -> frozenset[Word]:
    """Return the words of a list with commas. Raises `InputError` for one that is none."""
    given = [word for part in text.split(",") if (word := part.strip())]
    for word in given:
        if word not in WORDS:
            raise InputError(f"allow names '{word}': it may name {', '.join(WORDS)}.{nearest(word, WORDS)}")
    return frozenset(word for word in WORDS if word in given)


def refusal(candidate: TrainedModel, in_use: InUse | None, allowed: Set[Word] = frozenset()) -> str | None:
    """Return in one sentence why a model must not replace the one in use, or None where it may.

    It is refused when its run is not FINISHED, when it has no evaluation, and when it is worse than the model in use by
    the same metric on the same data; a tie is not worse, and what cannot be compared is not taken on trust. The
    sentence names the words that allow it.
    """
    found = objections(candidate, in_use)
    against = [each for each in found if each.word not in allowed]
    if not against:
        return None
    # Those that were allowed already, too: who gives these words gets no other refusal.
    words = ",".join(dict.fromkeys(each.word for each in found))
    told = " and ".join(each.told for each in against)
    return f"Job {candidate.job_name} (run {candidate.run_id}) {told}; allow={words} takes it all the same."


def check(candidate: TrainedModel, in_use: InUse | None, allowed: Set[Word] = frozenset()) -> None:
    """Raise `NotGoodEnough` with the sentence of `refusal`, where there is one."""
    if told := refusal(candidate, in_use, allowed):
        raise NotGoodEnough(told)


def objections(candidate: TrainedModel, in_use: InUse | None) -> list[Objection]:
    """Return all that speaks against a model."""
    found = []
    if candidate.status != "FINISHED":
        why = f" ({candidate.failure})" if candidate.failure else ""
        found.append(
            Objection(word="failed", told=f"ended {candidate.status}{why}" if _ended(candidate) else "has not ended")
        )
    if not candidate.metrics:
        found.append(Objection(word="unevaluated", told="has no evaluation metric"))
    if in_use and in_use.trained is None:
        told = f"cannot be compared with {in_use.title}, of which no run tells how good it is"
        found.append(Objection(word="worse", told=told))
    elif in_use and in_use.trained and in_use.trained.run_id != candidate.run_id:
        found += _against(candidate, in_use.trained, in_use.title)
    return found


def _against(candidate: TrainedModel, other: TrainedModel, title: str) -> Iterable[Objection]:
    if not candidate.metrics:
        return [Objection(word="worse", told=f"cannot be compared with {title}")]
    measure = measure_of([candidate.metrics, other.metrics], candidate.target_metric)
    if measure is None:
        told = f"has {_named(candidate)}, and {title} has {_named(other)}: they cannot be compared"
        return [Objection(word="worse", told=told)]
    mine, others = candidate.metrics[measure.column], other.metrics[measure.column]
    values = f"{measure.column} {_apart(mine, others)} of {title}"
    if not is_same_data(candidate, other):
        told = f"was evaluated on other data than {title}, so {values} cannot be compared"
        return [Objection(word="other-data", told=told)]
    return [Objection(word="worse", told=f"is worse: {values}")] if is_worse(mine, others, measure) else []


def is_same_data(one: TrainedModel, other: TrainedModel) -> bool:
    """Tell whether two models were evaluated on the same rows, as far as their runs tell.

    Runs that do not tell their rows apart from the rest of their data have the same where they have the same data.
    """
    if one.evaluation_key and other.evaluation_key:
        return one.evaluation_key == other.evaluation_key
    return bool(one.data_key) and one.data_key == other.data_key


def _apart(value: float, other: float) -> str:
    """Return `0.89 against 0.9`, with as many digits as it takes to see the difference."""
    told = ((f"{value:.{digits}g}", f"{other:.{digits}g}") for digits in (4, 6, 9))
    mine, others = next((pair for pair in told if pair[0] != pair[1]), (repr(value), repr(other)))
    return f"{mine} against {others}"


def _named(model: TrainedModel) -> str:
    return ", ".join(sorted(model.metrics)) or "no evaluation metric"


def _ended(model: TrainedModel) -> bool:
    return model.status not in ("RUNNING", "SCHEDULED")
