"""Checkpoints of earlier versions, which did not record every setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporting.errors import ArgumentError
from settings.training_identity import check_same


@pytest.mark.parametrize(("name", "earlier", "new"), [("kernels", "torch", "liger"), ("sharding", "none", "fsdp2")])
def test_a_checkpoint_without_a_setting_has_the_earlier_value(name: str, earlier: str, new: str) -> None:
    now = {"seed": 1, "kernels": "torch", "sharding": "none"}
    check_same(Path("checkpoint-1"), {"seed": 1}, now)
    with pytest.raises(ArgumentError, match=f"{name} was '{earlier}' and is '{new}'"):
        check_same(Path("checkpoint-1"), {"seed": 1}, {**now, name: new})
