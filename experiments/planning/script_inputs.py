"""Inputs of an experiment that runs a script: its source and its channels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training.scripts.channels import Channels, find_channels
from training.scripts.source import ScriptSource, find_script, unmet_requirements

if TYPE_CHECKING:
    from experiments.schema.script_fields import Script


@dataclass(frozen=True, kw_only=True)
class ScriptInputs:
    """Script and channels, ready for a job."""

    source: ScriptSource
    channels: Channels

    @property
    def key(self) -> str:
        """Hash of the script's source and channels, without its hyperparameters."""
        return hashlib.sha256(f"{self.source.identity} {self.channels.digest}".encode()).hexdigest()[:32]

    def notes(self) -> list[str]:
        """Return notes for the user before the script runs here."""
        unmet = unmet_requirements(self.source.folder)
        return [f"requirements.txt of the script lists packages that are missing: {', '.join(unmet)}"] if unmet else []


def script_inputs(script: Script, home: Path, echo: Callable[[str], None] = lambda _: None) -> ScriptInputs:
    """Return the script's source and channels. Raises InputError if one is missing or the script cannot run."""
    source = find_script(
        script.source,
        script.entry_point,
        home / "sources",
        revision=script.revision,
        directory=script.directory,
        echo=echo,
    )
    return ScriptInputs(source=source, channels=find_channels(script.channels, home))
