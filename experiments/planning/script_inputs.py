"""An experiment that names a script: what its hyperparameters take from the experiment, and what it reads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training.scripts.channels import Channels, find_channels
from training.scripts.source import ScriptSource, find_script, unmet_requirements

if TYPE_CHECKING:
    from experiments.schema.script_fields import Script


@dataclass(frozen=True, kw_only=True)
class ScriptInputs:
    """A script and its channels, ready for a job."""

    source: ScriptSource
    channels: Channels

    @property
    def key(self) -> str:
        """Hash of everything that the script is given, its hyperparameters apart."""
        return hashlib.sha256(f"{self.source.identity} {self.channels.digest}".encode()).hexdigest()[:32]

    def notes(self) -> list[str]:
        """Return what a person should know before the script runs here."""
        unmet = unmet_requirements(self.source.folder)
        return [f"the script's requirements.txt is not installed here: {', '.join(unmet)}"] if unmet else []


def script_inputs(script: Script, home: Path) -> ScriptInputs:
    """Return the script's source and channels. Raises InputError for what is not there or cannot run."""
    source = find_script(
        script.source, script.entry_point, home / "sources", revision=script.revision, directory=script.directory
    )
    return ScriptInputs(source=source, channels=find_channels(script.channels, home))
