"""Uses of a network by a script, as far as its experiment and its folder show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from training.scripts.requirements import FILE, requirement_lines

HUB_ARGUMENTS = frozenset(
    ("model_name_or_path", "model_id", "config_name", "tokenizer_name", "dataset_name", "hub_model_id")
)
"""Arguments of Transformers' example scripts that name a model or data of the Hub, or a folder."""


def network_uses(folder: Path, hyperparameters: Mapping[str, JsonValue], secrets: Iterable[str]) -> Iterator[str]:
    """Yield each use as a sentence without a full stop, with what to do instead. `folder` contains the script."""
    for name in secrets:
        yield f"script.secrets.{name} is read from AWS Secrets Manager inside the job: remove it"
    if lines := requirement_lines(folder):
        yield (
            f"{FILE} of the script is installed from a package index ({lines[0]}): remove it, and use an image that "
            "contains the packages"
        )
    for name, value in hyperparameters.items():
        if _names_hub(name.replace("-", "_"), value, folder):
            yield (
                f"script.hyperparameters.{name} {value!r} names something on the Hub: pass it as a folder in "
                "script.channels"
            )


def _names_hub(name: str, value: JsonValue, folder: Path) -> bool:
    if name == "push_to_hub":
        return value not in (False, "false", "False")
    is_path = not isinstance(value, str) or value.startswith(("/", ".")) or os.path.exists(folder / value)  # noqa: PTH110 - false for a name that is too long
    return name in HUB_ARGUMENTS and not is_path
