"""Each shipped experiment has settings for SageMaker, with an image that holds what the experiment needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.planning.load import FOLDER
from tests.support.aws.account import Account
from tests.support.job.published_workloads import SMALL_FIELDS, WORKLOADS, squad
from tests.support.job.small_workloads import emotion, small_model
from tests.training.services.sagemaker.conftest import Terminal
from training.services.sagemaker.images.table import aws_image

SETTINGS = FOLDER / "sagemaker"
ON_SAGEMAKER = {"machines"}
"""Experiments that name their instance types themselves."""
REVIEWS = {"reviews-distilbert"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ON_SAGEMAKER)
SMALL = {**SMALL_FIELDS, "data.train_rows": 130}
"""Enough rows for a batch of 16 on each of 8 devices."""


def small_fields(name: str, folder: Path, shared: Path) -> Mapping[str, object]:
    """Return fields with which a plan needs no network."""
    if "script" in read(FOLDER / f"{name}.yaml"):
        return {}
    if name in WORKLOADS:
        kind, small = WORKLOADS[name]
        model = {"model": small_model(folder, kind), "weights": "random"} if kind else {}
        # The reviews are 100, which a batch of 12 on each of 8 devices needs.
        return {**SMALL, **model, **small(folder, shared), **({"batch_size": 12} if name in REVIEWS else {})}
    data = {"emotion": lambda: emotion(shared), "squad-minilm": lambda: squad(folder, shared)}
    return {**SMALL, **data[name]()} if name in data else SMALL


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def test_no_other_settings_exist() -> None:
    assert sorted(path.stem for path in SETTINGS.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_request_has_the_named_image(
    terminal: Terminal, account: Account, shared: Path, tmp_path: Path, name: str
) -> None:
    fields = {
        "experiment": name,
        "backend_config": SETTINGS / f"{name}.yaml",
        "aws.role": "trainer",
        "aws.prices": terminal.fields["aws.prices"],
        **small_fields(name, tmp_path, shared),
    }
    [job] = terminal.plan("train", fields)["jobs"]
    request, settings = job["request"], read(SETTINGS / f"{name}.yaml")["machine"]
    image = aws_image(request["AlgorithmSpecification"]["TrainingImage"])
    assert image is not None
    versions = {"transformers": str(image.transformers), "pytorch": image.pytorch_text}
    assert all(versions[key].startswith(f"{value}.") for key, value in settings["image"].items()), versions
    assert request["ResourceConfig"]["InstanceType"] == settings["instance_type"]
    assert request["ResourceConfig"]["InstanceCount"] == settings.get("instance_count", 1)
    launched = any(key.endswith("_enabled") for key in request["HyperParameters"] if key.startswith("sagemaker_"))
    assert launched == (settings.get("devices", 1) > 1)
