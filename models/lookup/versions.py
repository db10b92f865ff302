"""Read the model registry: versions of registered models, and their aliases."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion

from tracking.queries.job_tables import quoted
from tracking.server.store import Store, require_answer
from training.contract.errors import InputError

MODEL_TAG = "platform.model"
"""Version tag with the URI of its MLflow model, `models:/m-...` or `runs:/RUN/model`."""
RUN_ID_TAG = "platform.run_id"
_URI = re.compile(r"models:/([^/@:]+)(?:@([\w-]+)|/([0-9]+))")
_LONGEST_NUMBER = 9
"""Most digits of a version number. Databases reject larger numbers, and the call would be retried."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of a registered model."""

    name: str
    """Name of the registered model."""
    number: str
    run_id: str
    """Run that trained it; empty if the version does not record it."""

    def __str__(self) -> str:
        return f"version {self.number} of {self.name}"


def model_name(uri: str) -> str | None:
    """Return NAME of `models:/NAME@ALIAS` or `models:/NAME/3`; None for any other text."""
    match = _URI.fullmatch(uri.strip())
    return match[1] if match else None


class Versions:
    """The registry of one tracking server."""

    def __init__(self, store: Store) -> None:
        uri = str(store.client.tracking_uri)
        # By default a client uses the registry set for the whole process, not the one of its tracking server.
        registry_uri = os.environ.get("MLFLOW_REGISTRY_URI") or uri
        require_answer(registry_uri)
        self.client = MlflowClient(tracking_uri=uri, registry_uri=registry_uri)
        self._store = store

    def by_uri(self, uri: str) -> Version:
        """Return the version that a `models:` URI names. Raises `InputError` if no such version exists."""
        match = _URI.fullmatch(uri)
        if match is None:
            raise InputError(f"run is '{uri}': write a registered model as models:/NAME@ALIAS or models:/NAME/3.")
        name, alias, number = match.groups()
        version = self.by_alias(name, alias) if alias else self.by_number(name, number)
        if version is None:
            raise InputError(f"run is '{uri}', which does not exist in the registry of {self._store.uri}.")
        if not version.run_id:
            raise InputError(f"run is '{uri}', but {version} does not record which run trained it: give a run id.")
        return version

    def by_alias(self, name: str, alias: str) -> Version | None:
        """Return the version that an alias names; None if it does not exist or this user may not read it."""
        # A search, because for a user with few permissions basic auth answers 403 to a request for a missing model.
        models = self._store.call(self.client.search_registered_models, f"name = {quoted(name)}", max_results=1)
        number = models[0].aliases.get(alias) if models else None
        return self.by_number(name, str(number)) if number else None

    def by_number(self, name: str, number: str) -> Version | None:
        """Return the version with this number, or None."""
        if len(number) > _LONGEST_NUMBER:
            return None
        versions = self._search(f"name = {quoted(name)} and version_number = {number}")
        return _version(versions[0]) if versions else None

    def by_model(self, name: str, model_uri: str) -> Version | None:
        """Return the registered model's first version that was made from this MLflow model, or None."""
        versions = self._search(f"name = {quoted(name)} and tags.`{MODEL_TAG}` = {quoted(model_uri)}")
        return _version(min(versions, key=lambda version: int(version.version))) if versions else None

    def create(
        self, name: str, location: str, run_id: str, model_id: str | None, description: str, tags: Mapping[str, str]
    ) -> Version:
        """Create a version of a registered model; `location` is the URI of its files."""
        # Not `models:/ID` as the source: MLflow would look it up on the server set for the whole process.
        made = self.client.create_model_version(
            name, location, run_id, tags=dict(tags), description=description, await_creation_for=0, model_id=model_id
        )
        return _version(made)

    def _search(self, where: str) -> list[ModelVersion]:
        return list(self._store.call(self.client.search_model_versions, where, max_results=100))


def _version(version: ModelVersion) -> Version:
    tags = version.tags or {}
    return Version(
        name=str(version.name),
        number=str(version.version),
        run_id=str(tags.get(RUN_ID_TAG) or version.run_id or ""),
    )
