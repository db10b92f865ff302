"""How many GPUs a machine type has, where SageMaker's SDK knows it."""

from __future__ import annotations


def gpu_count(instance_type: str, region: str) -> int | None:
    """Return the number, or None where the SDK (sagemaker-core 2.27.0) does not list the type."""
    # Imported late: it takes a second.
    from sagemaker.core import instance_types_gpu_info

    info = instance_types_gpu_info.retrieve(region).get(instance_type)
    return None if info is None else int(info["Count"])
