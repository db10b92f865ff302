"""Service of a plan: it changes nothing, and accepts data that only a sample stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

from experiments.dry_runs.scratch_state import ScratchState
from experiments.running.service_context import ServiceContext, open_service_context
from experiments.schema.experiment import Experiment
from training.contract.job_spec import JobSpec

NOT_STAGED = "s3://not-staged-yet"
"""Placeholder for the S3 prefix of data that is not staged yet. The prefix is a hash of the staged files."""


def planned_context(experiment: Experiment, echo: Callable[[str], None], state: ScratchState) -> ServiceContext:
    """Return the read-only context of an experiment's service. Raises InputError, AccessError.

    For checks and uploads to another machine, a channel that was estimated and not staged has a placeholder.
    """
    context = open_service_context(experiment, echo, is_read_only=True)
    if context.service.name == "local":
        return context
    check, upload = context.check, context.upload
    return replace(
        context,
        check=lambda spec: check(_with_placeholders(spec, state)),
        upload=lambda spec: upload(_with_placeholders(spec, state)),
    )


def _with_placeholders(spec: JobSpec, state: ScratchState) -> JobSpec:
    channels = {
        name: f"{NOT_STAGED}/{name}" if _is_estimated(uri, state) else uri for name, uri in spec.channels.items()
    }
    return spec.model_copy(update={"channels": channels})


def _is_estimated(uri: str, state: ScratchState) -> bool:
    path = Path(unquote(urlparse(uri).path))
    return uri.startswith("file://") and path.is_relative_to(state.folder / "staged") and not path.exists()
