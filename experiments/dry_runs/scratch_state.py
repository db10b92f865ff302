"""A state folder for one plan: it starts with links to what the real one has, and is deleted at the end."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.planning.inputs import Inputs
from experiments.planning.staged_inputs import Echo, inputs_in, notes_of
from experiments.running.output import print_error
from experiments.schema.experiment import Experiment
from tracking.groups.planned_job import PlannedJob
from training.staging.estimate import Estimate, stage_or_estimate
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.tokens.staged import Staged
from training.state.regular_files import user_path
from training.state.shared_folders import SHARED

LINKED = (*SHARED, "docstrings", "tokenizers")
"""Folders of the state whose entries never change once they are complete."""


@dataclass(frozen=True, kw_only=True)
class ScratchState:
    """State folder of one plan."""

    home: Path
    """The real state folder."""
    folder: Path
    """The temporary one."""
    _estimates: dict[str, Estimate] = field(default_factory=dict)
    """Estimates so far by their request. Arms often share one."""

    def inputs(self, experiment: Experiment) -> Inputs:
        """Return the inputs of an experiment, staged here or estimated. Raises InputError."""
        return inputs_in(self.folder, experiment, self._stage, lambda _: None, is_planned=True)

    def notes(self, inputs: Sequence[Inputs]) -> list[str]:
        """Return the notes of all distinct inputs, with the paths of the real state folder."""
        return [note.replace(str(self.folder), str(self.home)) for note in notes_of(inputs)]

    def sample_rows(self, inputs: Inputs) -> int | None:
        """Return the rows from which staged data was estimated, or None."""
        estimates = (each for each in self._estimates.values() if each.staged is inputs)
        return next((each.sample_rows for each in estimates), None)

    def is_in_home(self, inputs: Inputs) -> bool:
        """Return whether the real state folder has these inputs already."""
        if isinstance(inputs, Staged):
            return (self.home / "staged" / inputs.key).is_dir()
        folder = inputs.source.folder
        return (self.home / folder.relative_to(self.folder)).exists() if self._has(folder) else True

    def at_home(self, job: PlannedJob) -> PlannedJob:
        """Return a job with the paths that its inputs would have in the real state folder."""
        here, there = self.folder.as_uri(), self.home.as_uri()

        def moved(uri: str) -> str:
            return there + uri.removeprefix(here) if uri.startswith(f"{here}/") else uri

        channels = {name: moved(uri) for name, uri in job.spec.channels.items()}
        environment = {
            name: value.replace(str(self.folder), str(self.home)) for name, value in job.spec.environment.items()
        }
        changes = {"channels": channels, "source_uri": moved(job.spec.source_uri), "environment": environment}
        spec = job.spec.model_copy(update=changes)
        return replace(job, spec=spec)

    def _has(self, path: Path) -> bool:
        return path.is_relative_to(self.folder)

    def _stage(self, request: StagingRequest, folder: Path, echo: Echo, progress: Progress) -> Staged:
        key = request.model_dump_json()
        if key not in self._estimates:
            self._estimates[key] = stage_or_estimate(request, folder, _note, progress)
        return self._estimates[key].staged


def _note(text: str) -> None:
    """Print a line beside the plan, which may be JSON on standard output."""
    print_error(text)


@contextmanager
def scratch_state(home: Path) -> Iterator[ScratchState]:
    """Yield a temporary state folder with links to the entries of `home`, which it does not change."""
    with tempfile.TemporaryDirectory(prefix="trainfare-plan-") as name:
        folder = Path(name).resolve()
        for shared in LINKED:
            _link(home / shared, folder / shared)
        with _hub_cache(folder / "hub"):
            yield ScratchState(home=home.absolute(), folder=folder)


def _link(source: Path, target: Path) -> None:
    target.mkdir()
    for entry in source.iterdir() if source.is_dir() else ():
        if not entry.name.startswith("."):  # records, locks and unfinished entries belong to the real folder
            (target / entry.name).symlink_to(entry)


@contextmanager
def _hub_cache(folder: Path) -> Iterator[None]:
    """Let Hugging Face's libraries store new files in `folder`, and read those of their own cache.

    They read the variable when they are imported. If they are imported already, their cache stays in use.
    """
    if "huggingface_hub" in sys.modules:
        yield
        return
    base = user_path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "HF_HOME")
    own = user_path(os.environ.get("HF_HUB_CACHE") or str(base / "hub"), "HF_HUB_CACHE")
    before = os.environ.get("HF_HUB_CACHE")
    _link(own, folder)
    os.environ["HF_HUB_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("HF_HUB_CACHE", None)
        os.environ |= {} if before is None else {"HF_HUB_CACHE": before}
