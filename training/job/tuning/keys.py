"""Keys of decisions: what has to be equal for two jobs to take the same values."""

import hashlib
import json
import os
from importlib import metadata
from typing import Any, Dict, Sequence

import torch
import transformers

from measuring import hardware
from settings.job_settings import Settings
from tuning.trial_steps import middle_shape

LIBRARY_VARIABLES = ("ONEDNN_", "DNNL_", "ATEN_CPU_", "MKL_")
"""Prefixes of variables that select the instructions of the CPU."""


def group_key(group: str, device_kind: str) -> Dict[str, Any]:
    """Return the key of all jobs of a group on one kind of machine.

    The number of CPUs does not count: a group whose arms differ in it compares the cores, not the precision.
    """
    return {"group": group, "machine": machine(device_kind)}


def setting_key(settings: Settings, model: Any, fields: Sequence[str], threads: int) -> Dict[str, Any]:
    """Return the key of all jobs with the same machine, model, shapes, versions and fixed values."""
    values = settings.effective()
    rows, tokens = middle_shape(settings)
    fixed = [name for name in ("precision", "attention", "dropout") if name not in fields]
    return {
        "machine": machine(settings.device_kind),
        "threads": threads or torch.get_num_threads(),
        "processes": settings.processes,
        "versions": versions(settings.device_kind),
        "model": [type(model).__name__, _digest(_configuration(model))],
        # Lengths differ a little between seeds.
        "shape": [rows, -(-tokens // 8) * 8],
        "fixed": {name: values[name] for name in fixed},
    }


def machine(device_kind: str) -> Dict[str, Any]:
    """Return the kind of machine: the CPU, limits on its instructions, and the GPU if jobs use it."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(LIBRARY_VARIABLES)}
    gpu = {"gpu": torch.cuda.get_device_name()} if device_kind == "cuda" else {}
    return {**hardware.cpu_kind(), "variables": variables, **gpu}


def versions(device_kind: str) -> Dict[str, str]:
    """Return the versions of the packages that compute."""
    libraries = {"torch": torch.__version__, "transformers": transformers.__version__}
    if device_kind != "cuda":
        return libraries
    try:
        return {**libraries, "flash_attn": metadata.version("flash_attn")}
    except metadata.PackageNotFoundError:
        return libraries


def _configuration(model: Any) -> Dict[str, Any]:
    shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    config = {**model.config.to_dict(), "shapes": shapes}
    return {name: value for name, value in config.items() if name not in ("_name_or_path", "id2label", "label2id")}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
