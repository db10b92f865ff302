"""Return the error message for an invalid experiment."""

from __future__ import annotations

import pytest

from experiments.planning.load import load
from training.contract.errors import InputError


def refused(name: str, overrides: dict[str, str]) -> str:
    with pytest.raises(InputError) as caught:
        load(name, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message
