"""The few facts about instance types that decide on an image. Pure."""

from __future__ import annotations

import re

VOLTA = ("p3", "p3dn")
"""Families with V100 GPUs."""


def family(instance_type: str) -> str:
    """Return `g5` for `ml.g5.xlarge`."""
    return instance_type.split(".")[1] if instance_type.count(".") == 2 else instance_type


def is_arm(instance_type: str) -> bool:
    """Return True for Graviton (such as c7g and g5g) and Grace (p6e-gb200), which need images of their own."""
    return bool(re.fullmatch(r"[a-z]+\d+gd?n?|p6e-gb\d+", family(instance_type)))


def is_gpu(instance_type: str) -> bool:
    return family(instance_type).startswith(("p", "g"))


def is_trainium(instance_type: str) -> bool:
    return family(instance_type).startswith("trn")
