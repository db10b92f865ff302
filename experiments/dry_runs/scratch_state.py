"""A state folder for one plan: it starts with links to what the real one has, and is deleted at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from experiments.planning.arms import Arm
from experiments.planning.command_plan import Refusal
from experiments.planning.inputs import Echo, Inputs, inputs_in
from experiments.running.launch import Preparation, Result
from experiments.running.output import print_error, sentence
from experiments.running.service_context import open_service_context
from experiments.schema.experiment import Experiment
from state.locks import SHARED
from state.regular_files import user_path
from training.contract.errors import TrainfareError, messages_of
from training.contract.job_spec import JobSpec
from training.contract.service import ServiceContext
from training.services.registry import traits_of
from training.staging.estimate import Estimate, stage_or_estimate
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.tokens.staged import Staged

LINKED = (*SHARED, "docstrings", "tokenizers")
"""Folders of the state whose entries never change once they are complete."""
NOT_STAGED = "s3://not-staged-yet"
"""Placeholder for the S3 prefix of data that is not staged yet. The prefix is a hash of the staged files."""


@dataclass(frozen=True, kw_only=True)
class ScratchState(Preparation):
    """State folder of one plan. Data is staged in it if that takes seconds, and else estimated from its first rows."""

    home: Path
    """The real state folder."""
    folder: Path
    """The temporary one."""
    _estimates: dict[str, Estimate] = field(default_factory=dict)
    """Estimates so far by their request. Arms often share one."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    """Errors with which the command would end, by their messages, in the order in which it would meet them."""
    notes: list[str] = field(default_factory=list)

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step, or None if it raises an error of a user, which the plan lists."""
        try:
            return step()
        except TrainfareError as error:
            for message in messages_of(error):
                self.refused.setdefault(message, Refusal(message=message, exit_code=error.exit_code))
        except Exception as error:
            if (text := sentence(error)) is None:
                raise
            self.refused.setdefault(text, Refusal(message=text, exit_code=1))
        return None

    def echo(self, text: str) -> None:
        """Collect a note."""
        self.notes.append(text)

    def stage(self, arms: Sequence[Arm]) -> list[Inputs | None]:
        """Return the inputs of each arm, or None for those that are refused."""
        return [self.attempt(partial(self.inputs, arm.experiment)) for arm in arms]

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the read-only service of the experiment's jobs. Raises InputError, AccessError."""
        return open_service_context(experiment, self.echo, is_read_only=True)

    def inputs(self, experiment: Experiment) -> Inputs:
        """Return the inputs of an experiment, staged here or estimated. Raises InputError."""
        inputs = inputs_in(self.folder, experiment, self._stage, lambda _: None, is_planned=True)
        if (
            not traits_of(experiment.service).uploads_inputs
            or not isinstance(inputs, Staged)
            or self.sample_rows(inputs) is None
        ):
            return inputs
        missing = (self.folder / "staged").as_uri()
        uris = {
            name: f"{NOT_STAGED}/{name}" if uri.startswith(missing) else uri for name, uri in inputs.channels.items()
        }
        return replace(inputs, channels=uris)

    def sample_rows(self, inputs: Inputs) -> int | None:
        """Return the rows from which staged data was estimated, or None."""
        return next((each.sample_rows for each in self._estimates.values() if each.staged.key == inputs.key), None)

    def is_in_home(self, inputs: Inputs) -> bool:
        """Return whether the real state folder has these inputs already."""
        folder = f"{self.home}/staged/{inputs.key}" if isinstance(inputs, Staged) else str(inputs.source.folder)
        return Path(self.at_home(folder)).exists()

    def at_home(self, text: str) -> str:
        """Return a text with the paths that its files would have in the real state folder."""
        uris_moved = text.replace(self.folder.as_uri(), self.home.as_uri())
        return uris_moved.replace(str(self.folder), str(self.home))

    def spec_at_home(self, spec: JobSpec) -> JobSpec:
        """Return a job's spec with the paths of the real state folder."""
        channels = {name: self.at_home(uri) for name, uri in spec.channels.items()}
        variables = {name: self.at_home(value) for name, value in spec.environment.items()}
        changes = {"channels": channels, "source_uri": self.at_home(spec.source_uri), "environment": variables}
        return spec.model_copy(update=changes)

    def _stage(self, request: StagingRequest, folder: Path, _: Echo, progress: Progress) -> Staged:
        key = request.model_dump_json()
        if key not in self._estimates:  # standard output may be JSON, so lines go to standard error
            self._estimates[key] = stage_or_estimate(request, folder, print_error, progress)
        return self._estimates[key].staged


@contextmanager
def scratch_state(home: Path) -> Iterator[ScratchState]:
    """Yield a temporary state folder with links to the entries of `home`, which it does not change.

    Hugging Face's libraries, which read the variable when they are imported, store new files in it, too.
    """
    base = user_path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "HF_HOME")
    hub = user_path(os.environ.get("HF_HUB_CACHE") or str(base / "hub"), "HF_HUB_CACHE")
    before = os.environ.get("HF_HUB_CACHE")
    with tempfile.TemporaryDirectory(prefix="trainfare-plan-") as name:
        folder = Path(name).resolve()
        for source, target in [(hub, folder / "hub"), *((home / each, folder / each) for each in LINKED)]:
            target.mkdir()
            for entry in source.iterdir() if source.is_dir() else ():
                if not entry.name.startswith("."):  # records, locks and unfinished entries belong to the real folder
                    (target / entry.name).symlink_to(entry)
        os.environ["HF_HUB_CACHE"] = str(folder / "hub")
        try:
            yield ScratchState(home=home.absolute(), folder=folder)
        finally:
            del os.environ["HF_HUB_CACHE"]
            os.environ |= {} if before is None else {"HF_HUB_CACHE": before}
