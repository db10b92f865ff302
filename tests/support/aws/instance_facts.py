"""Write `training/services/sagemaker/instance_types.json` from the tables of installed packages.

Run it after an update of botocore, moto or sagemaker-core: `python -m tests.support.aws.instance_facts`.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import boto3

from tests.support.aws.service_rules import ec2_instance_types
from training.services.sagemaker.machines import TYPES_FILE, family

DATE = "2026-11-25"
"""Day on which the sources were read."""


WRONG_MEMORY = ("Trainium2",)
"""Devices whose memory is left out. EC2 states 512 GiB for a Trainium2, which has 96 GiB (AWS's page of EC2 Trn2)."""


def facts() -> dict[str, Any]:
    """Return the content of the table: instance types with GPUs or Neuron devices, and families without.

    moto carries the answer of EC2's DescribeInstanceTypes, the source of most rows. sagemaker-core has GPU counts for
    types that EC2 no longer lists. A type that neither knows is left out: its counts are unknown.
    """
    of_ec2 = ec2_instance_types()
    from sagemaker.core import instance_types_gpu_info

    of_sdk = instance_types_gpu_info.retrieve("us-east-1")
    rows: dict[str, list[Any]] = {}
    cpu_families = set()
    accelerated = {f"ml.{name}" for name, described in of_ec2.items() if _row(described)}
    for name in sorted(accelerated.union(instance_types())):
        described = of_ec2.get(name.removeprefix("ml."))
        if described is None and name in of_sdk:
            count = int(of_sdk[name]["Count"])
            rows[name] = ["gpu", "unknown", count, int(of_sdk[name]["TotalGpuMemoryInMiB"]) // count, 0]
        elif described is not None and (row := _row(described)):
            rows[name] = row
        elif described is not None:
            cpu_families.add(family(name))
    sources = (
        f"EC2 DescribeInstanceTypes as of moto {version('moto')}; GPU counts that it lacks from sagemaker-core "
        f"{version('sagemaker-core')}; names from botocore {version('botocore')}"
    )
    return {"source": sources, "date": DATE, "accelerated": rows, "cpu_families": sorted(cpu_families)}


def instance_types() -> list[str]:
    """Return the names of the instance types for training and for hosting."""
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    shapes = (model.shape_for("TrainingInstanceType"), model.shape_for("ProductionVariantInstanceType"))
    return sorted({name for shape in shapes for name in shape.enum})


def _row(described: dict[str, Any]) -> list[Any] | None:
    """Return kind, name, count, memory of each device in MiB, and cores of each Neuron device."""
    gpus = [each for each in described.get("GpuInfo", {}).get("Gpus", []) if each["Manufacturer"] == "NVIDIA"]
    neuron = described.get("NeuronInfo", {}).get("NeuronDevices", [])
    for kind, devices in (("gpu", gpus), ("neuron", neuron)):
        for device in devices:
            cores = device.get("CoreInfo", {}).get("Count", 0)
            # A part of a GPU counts as none, but a program sees one.
            count = max(device["Count"], device.get("LogicalGpuCount", 0))
            memory_mib = None if device["Name"] in WRONG_MEMORY else device["MemoryInfo"]["SizeInMiB"]
            return [kind, device["Name"], count, memory_mib, cores]
    return None


def text(content: dict[str, Any]) -> str:
    """Return the table as JSON, one instance type with accelerators per line."""
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in content["accelerated"].items())
    return (
        f'{{\n  "source": {json.dumps(content["source"])},\n  "date": {json.dumps(content["date"])},\n'
        f'  "accelerated": {{\n{rows}\n  }},\n  "cpu_families": {json.dumps(content["cpu_families"])}\n}}\n'
    )


if __name__ == "__main__":
    TYPES_FILE.write_text(text(facts()))
