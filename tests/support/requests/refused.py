"""The message with which an experiment is refused."""

from __future__ import annotations

import pytest

from experiments.planning.load import load
from training.contract.errors import InputError


def refused(name: str, overrides: dict[str, str]) -> str:
    with pytest.raises(InputError) as caught:
        load(name, overrides)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence
