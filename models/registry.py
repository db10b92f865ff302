"""Register models. Each model becomes one version of a registered model; an alias names the version in use."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass

from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from models.gate import GateCheck, ModelInUse, check
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
from tracking.queries.measures import EVALUATIONS
from tracking.server.errors import is_unknown_call
from tracking.server.store import Store
from training.contract.errors import InputError, NotAllowed, TrackingError
from training.contract.plain_text import without_markup

CHAMPION = "champion"
"""The alias of the model in use."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,255}")
_RESERVED = re.compile(r"latest|[vV]\d+")
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class Registered:
    """Result of `register`."""

    version: Version
    is_new: bool
    """True if the model was not registered before."""
    replaced: Version | None
    """Version that the alias named before, if it was a different one."""
    had_alias: bool
    """True if the alias already named this version."""


class Registry:
    """Writes to a tracking server's model registry."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions = Versions(store)
        self._client = self._versions.client

    def in_use(self, name: str, alias: str = CHAMPION) -> ModelInUse | None:
        """Return the model that a registered model's alias names.

        None if it does not exist, if this user may not read it, or if the server has no registry.
        """
        try:
            version = self._versions.by_alias(name, alias)
        except TrackingError as error:
            if is_unknown_call(error.__cause__):
                return None
            raise
        return ModelInUse(trained=self._trained(version), title=f"{version} ({alias})") if version else None

    def register(
        self, trained: TrainedModel, name: str, alias: str = CHAMPION, *, allowed: Set[GateCheck] = frozenset()
    ) -> Registered:
        """Register a model as a version of the registered model `name`, unless it is one, and set the alias to it.

        Every step first looks for the result of an interrupted command, so a repeated command completes it. The quality
        gate is checked directly before the alias is moved, because a different command may have moved it meanwhile;
        `allowed` are the checks to skip. Raises `InputError` for a model that cannot be registered, `NotGoodEnough`,
        and `TrackingError`.
        """
        location = find_artifact_location(self._store, trained)
        self._store.subject = f"registered model '{name}'"
        self._create_model(name, trained)
        known = self._versions.by_model(name, str(trained.model_uri))
        version = known or self._create_version(name, trained, location)
        before = self._versions.by_alias(name, alias)
        had_alias = before is not None and before.number == version.number
        if not had_alias:
            check(trained, self.in_use(name, alias), allowed)
            self._store.call(self._client.set_registered_model_alias, name, alias, version.number)
        self._link(trained, version)
        replaced = None if had_alias else before
        return Registered(version=version, is_new=known is None, replaced=replaced, had_alias=had_alias)

    def _trained(self, version: Version) -> TrainedModel | None:
        """Return the model of a version's run, even a deleted run. None if it is unknown or permanently removed."""
        if not version.run_id:
            return None
        try:
            return trained_model_of(self._store, self._store.call(self._store.client.get_run, version.run_id))
        except TrackingError as error:
            if error_code(error) != "RESOURCE_DOES_NOT_EXIST":
                raise
        return None

    def _create_model(self, name: str, trained: TrainedModel) -> None:
        def existing() -> object | None:
            return next(iter(self._client.search_registered_models(f"name = '{name}'", max_results=1)), None)

        if self._store.call(existing) is None:
            experiment = without_markup(trained.experiment_name)
            description = f"Models of the experiment {experiment}. The alias `champion` names the model in use."
            create = self._client.create_registered_model
            self._store.create(create, name, existing=existing, description=description)

    def _create_version(self, name: str, trained: TrainedModel, location: str) -> Version:
        tags = {MODEL_TAG: str(trained.model_uri), RUN_ID_TAG: trained.run_id, **_tags(trained)}
        made: Version = self._store.create(
            self._versions.create,
            name,
            location,
            trained.run_id,
            trained.model_id,
            version_description(trained),
            tags,
            existing=lambda: self._versions.by_model(name, str(trained.model_uri)),
        )
        return made

    def _link(self, trained: TrainedModel, version: Version) -> None:
        """Link the model's page in MLflow to the version, as `mlflow.register_model` does."""
        if trained.model_id is None:
            return
        client = self._store.client
        tags = self._store.call(client.get_logged_model, trained.model_id).tags
        links = json.loads(tags.get(MLFLOW_MODEL_VERSIONS) or "[]")
        link = {"name": version.name, "version": int(version.number)}
        if not any((each["name"], str(each["version"])) == (version.name, version.number) for each in links):
            tagged = {MLFLOW_MODEL_VERSIONS: json.dumps([*links, link])}
            with suppress(NotAllowed):  # a user who may not change the model can still register it
                self._store.call(client.set_logged_model_tags, trained.model_id, tagged)


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
    """Return a user's alias. Raises `InputError` if MLflow forbids it."""
    if not _ALIAS.fullmatch(alias) or _RESERVED.fullmatch(alias):
        raise InputError(
            f"alias is '{alias}': use at most 255 letters, digits, '-' and '_'. MLflow reserves latest and v1, v2, ..."
        )
    return alias


def _tags(trained: TrainedModel) -> dict[str, str]:
    """Return the tags of a version, for MLflow's pages and filters."""
    origin = {"job_name": trained.job_name, "group": trained.group, "arm": trained.arm, "versions": trained.versions}
    tags = {f"platform.{name}": value for name, value in origin.items() if value}
    return tags | {name: f"{value:.6g}" for name, value in trained.metrics.items()}


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
    """Return the last evaluation as a sentence."""
    metrics = [f"{name} {trained.metrics[name]:.6g}" for name in EVALUATIONS if name in trained.metrics]
    return f"Evaluation: {', '.join(metrics)}." if metrics else "It was not evaluated."
