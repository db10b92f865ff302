"""Inputs of the jobs of an arm."""

from __future__ import annotations

from experiments.planning.script_inputs import ScriptInputs
from training.staging.tokens.staged import Staged

Inputs = Staged | ScriptInputs
"""Inputs of an arm's jobs: staged data, or a script and its channels."""
