"""Keys of decisions: what has to be equal for two jobs to take the same values."""

import hashlib
import json
import os
from typing import Any, Dict, Sequence

import torch
import transformers

from measuring import hardware
from settings.job_settings import Settings
from tuning.trial_steps import middle_shape

LIBRARY_VARIABLES = ("ONEDNN_", "DNNL_", "ATEN_CPU_", "MKL_")
"""Prefixes of variables that select the instructions of the CPU."""


def group_key(group: str) -> Dict[str, Any]:
    """Return the key of all jobs of a group on one kind of machine.

    The number of CPUs does not count: a group whose arms differ in it compares the cores, not the precision.
    """
    return {"group": group, "machine": machine()}


def setting_key(settings: Settings, model: Any, fields: Sequence[str], threads: int) -> Dict[str, Any]:
    """Return the key of all jobs with the same machine, model, shapes, versions and fixed values."""
    values = settings.effective()
    rows, tokens = middle_shape(settings)
    fixed = [name for name in ("precision", "attention", "dropout") if name not in fields]
    return {
        "machine": machine(),
        "threads": threads or torch.get_num_threads(),
        "processes": settings.processes,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model": [type(model).__name__, _digest(_configuration(model))],
        # Lengths differ a little between seeds.
        "shape": [rows, -(-tokens // 8) * 8],
        "fixed": {name: values[name] for name in fixed},
    }


def machine() -> Dict[str, Any]:
    """Return the kind of machine: the CPU, and limits on its instructions."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(LIBRARY_VARIABLES)}
    return {**hardware.cpu_kind(), "variables": variables}


def _configuration(model: Any) -> Dict[str, Any]:
    shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    config = {**model.config.to_dict(), "shapes": shapes}
    return {name: value for name, value in config.items() if name not in ("_name_or_path", "id2label", "label2id")}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
