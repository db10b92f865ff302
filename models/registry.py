"""Register models, and the quality gate: checks that a model must pass before it replaces the model in use.

Each model becomes one version of a registered model; an alias names the version in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Literal, get_args

from models.quality import choose_measure, is_worse, without_own
from models.trained_model import (
    MODEL_TAG,
    RUN_ID_TAG,
    TrainedModel,
    Version,
    Versions,
    error_code,
    find_artifact_location,
    trained_model_of,
)
from tracking.recorded.recorded_job import EVALUATIONS
from training.contract.errors import InputError, NotGoodEnough, TrackingError
from training.contract.plain_text import without_markup

GateCheck = Literal["failed", "unevaluated", "worse", "other-data"]
GATE_CHECKS: tuple[GateCheck, ...] = get_args(GateCheck)
"""Checks that the option `allow` can skip. A model fails them if its run did not finish (failed), if it has no
evaluation (unevaluated), if it is worse than the model in use or cannot be compared with it (worse), or if it was
evaluated on different data (other-data)."""
CHAMPION = "champion"
"""The alias of the model in use."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,255}")
_RESERVED = re.compile(r"latest|[vV]\d+")
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class ModelInUse:
    """Model that an alias names at present."""

    trained: TrainedModel | None
    """None if its run was deleted permanently or is not recorded."""
    title: str
    """Name for messages, such as `version 3 of emotion (champion)`."""


def check(candidate: TrainedModel, in_use: ModelInUse | None, allowed: Set[GateCheck] = frozenset()) -> None:
    """Raise `NotGoodEnough` if a model must not replace the model in use.

    A model is refused if its run is not FINISHED, if it has no evaluation, if it is worse than the model in use by the
    same metric on the same data, or if the two cannot be compared. A tie is not worse. The message names the checks to
    skip in order to accept the model anyway.
    """
    objections = list(_objections(candidate, in_use))
    against = [sentence for name, sentence in objections if name not in allowed]
    if not against:
        return
    # Including the checks that were already skipped, so that this list is enough by itself.
    words = ",".join(dict.fromkeys(name for name, _ in objections))
    title = f"Job {candidate.job_name} (run {candidate.run_id})"
    raise NotGoodEnough(f"{title} {' and '.join(against)}. To accept it anyway, use --allow {words}.")


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
    if other is not None and other.quality != candidate.quality:
        candidate, other = (replace(each, metrics=without_own(each.metrics)) for each in (candidate, other))
    if other is None:
        yield "worse", f"cannot be compared with {title}, whose run is missing"
    elif not candidate.metrics:
        yield "worse", f"cannot be compared with {title}"
    elif (measure := choose_measure([candidate.metrics, other.metrics], candidate.target_metric)) is None:
        mine, others = (", ".join(sorted(each.metrics)) or "no evaluation metric" for each in (candidate, other))
        yield "worse", f"has {mine}, and {title} has {others}: they cannot be compared"
    else:
        value, other_value = candidate.metrics[measure.column], other.metrics[measure.column]
        # Enough digits to see the difference.
        pairs = ((f"{value:.{digits}g}", f"{other_value:.{digits}g}") for digits in (4, 6, 9))
        mine, others = next((pair for pair in pairs if pair[0] != pair[1]), (repr(value), repr(other_value)))
        values = f"{measure.column} {mine} against {others} of {title}"
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


@dataclass(frozen=True, kw_only=True)
class Registered:
    version: Version
    is_new: bool
    replaced: Version | None
    """Version that the alias named before, if it was a different one."""


class Registry(Versions):
    """Writes to a tracking server's model registry."""

    def in_use(self, name: str, alias: str = CHAMPION) -> ModelInUse | None:
        """Return the model that a registered model's alias names.

        None if it does not exist or this user may not read it.
        """
        version = self.by_alias(name, alias)
        if version is None:
            return None
        trained = None
        try:  # even a deleted run
            if version.run_id:
                run = self._store.call(self._store.client.get_run, version.run_id)
                trained = trained_model_of(self._store, run)
        except TrackingError as error:
            if error_code(error) != "RESOURCE_DOES_NOT_EXIST":  # permanently removed
                raise
        return ModelInUse(trained=trained, title=f"{version} ({alias})")

    def register(
        self, trained: TrainedModel, name: str, alias: str = CHAMPION, *, allowed: Set[GateCheck] = frozenset()
    ) -> Registered:
        """Register a model as a version of the registered model `name`, unless it is one, and set the alias to it.

        The model must pass the quality gate; `allowed` are the checks to skip. Every step first looks for the result of
        an interrupted command, so a repeated command completes it. Raises `InputError` for a model that cannot be
        registered, `NotGoodEnough`, and `TrackingError`.
        """
        self._store.subject = f"registered model '{name}'"
        check(trained, self.in_use(name, alias), allowed)
        location = find_artifact_location(self._store, trained)
        self._create_model(name, trained)

        def existing() -> Version | None:
            return self.by_model(name, str(trained.model_uri))

        def create() -> Version:
            origin = ("job_name", "group", "arm", "versions")
            named = {f"platform.{each}": value for each in origin if (value := getattr(trained, each))}
            metrics = {each: f"{value:.6g}" for each, value in trained.metrics.items()}
            # Not `models:/ID` as the source: MLflow would look it up on the server set for the whole process.
            made = self.client.create_model_version(
                name,
                location,
                trained.run_id,
                tags={MODEL_TAG: str(trained.model_uri), RUN_ID_TAG: trained.run_id, **named, **metrics},
                description=version_description(trained),
                await_creation_for=0,
                model_id=trained.model_id,
            )
            return Version.of(made)

        known = existing()
        version: Version = known or self._store.create(create, existing=existing)
        before = self.by_alias(name, alias)
        replaced = before if before and before.number != version.number else None
        if before is None or replaced:
            self._store.call(self.client.set_registered_model_alias, name, alias, version.number)
        return Registered(version=version, is_new=known is None, replaced=replaced)

    def _create_model(self, name: str, trained: TrainedModel) -> None:
        def existing() -> object | None:
            return next(iter(self.client.search_registered_models(f"name = '{name}'", max_results=1)), None)

        if self._store.call(existing) is None:
            experiment = without_markup(trained.experiment_name)
            description = f"Models of the experiment {experiment}. The alias `champion` names the model in use."
            create = self.client.create_registered_model
            self._store.create(create, name, existing=existing, description=description)


def registered_name(experiment_name: str) -> str:
    """Return the name of an experiment's registered model. MLflow forbids `/` and `:`, its filters forbid quotes."""
    name = re.sub(r"[^\w. -]+", "-", experiment_name).strip(" .-")[:_LONGEST_NAME].rstrip(" .-")
    return name or "model"


def checked_name(name: str) -> str:
    """Return a user's name for a registered model. Raises `InputError` if MLflow forbids it."""
    if name != registered_name(name):
        rule = f"at most {_LONGEST_NAME} letters, digits, spaces, dots, '-' and '_', such as '{registered_name(name)}'"
        raise InputError(f"name is '{name}': a registered model's name must have {rule}.")
    return name


def checked_alias(alias: str) -> str:
    if not _ALIAS.fullmatch(alias) or _RESERVED.fullmatch(alias):
        raise InputError(
            f"alias is '{alias}': use at most 255 letters, digits, '-' and '_'. MLflow reserves latest and v1, v2, ..."
        )
    return alias


def version_description(trained: TrainedModel) -> str:
    """Return the description of a version: its origin, its evaluation and the reason for choosing it."""
    of_group = f" of group `{trained.group}`" if trained.group else ""
    setting = f" ({without_markup(trained.arm)})" if trained.arm else ""
    parts = [
        f"Trained by job `{trained.job_name}`{setting}{of_group}: "
        f"[run {trained.run_id}](#/experiments/{trained.experiment_id}/runs/{trained.run_id}).",
        evaluation_sentence(trained),
        without_markup(trained.chosen),
        f"Trained with {without_markup(trained.versions)}." if trained.versions else "",
    ]
    return "\n\n".join(part for part in parts if part)


def evaluation_sentence(trained: TrainedModel) -> str:
    metrics = [f"{name} {trained.metrics[name]:.6g}" for name in EVALUATIONS if name in trained.metrics]
    return f"Evaluation: {', '.join(metrics)}." if metrics else "It was not evaluated."
