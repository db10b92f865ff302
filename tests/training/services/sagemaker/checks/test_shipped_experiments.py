"""Shipped experiments and the examples of public scripts have requests whose images hold what they need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.planning.load import FOLDER
from tests.conftest import ROOT
from tests.support.requests.building import Built
from tests.support.requests.workloads import ACCOUNT
from training.contract.image_address import Image
from training.services.sagemaker.images import aws_image

SETTINGS = FOLDER / "sagemaker"
ON_SAGEMAKER = {"machines"}
"""Experiments that name their instance types themselves."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ON_SAGEMAKER)
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
DOCUMENT = (ROOT / "docs" / "script_examples.md").read_text()
ON_GPU = {"nanogpt": {"device": "cuda"}, "nlp_example": {"cpu": "false"}, "word_language_model": {"accel": "true"}}
"""Hyperparameters by which a script uses a GPU."""


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def image_of(request: dict[str, Any]) -> Image:
    image = aws_image(request["AlgorithmSpecification"]["TrainingImage"])
    assert image is not None
    return image


def test_no_other_settings_exist() -> None:
    assert sorted(path.stem for path in SETTINGS.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_request_has_the_named_image(built: Built, tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "b"}\n')
    channels = read(FOLDER / f"{name}.yaml").get("script", {}).get("channels", {})
    data = {f"script.channels.{each}": str(tmp_path / "rows.jsonl") for each in channels}
    request = built(name, backend_config=str(SETTINGS / f"{name}.yaml"), **ACCOUNT, **data)
    image, settings = image_of(request), read(SETTINGS / f"{name}.yaml")["machine"]
    versions = {"transformers": str(image.transformers), "pytorch": image.pytorch_text}
    assert all(versions[key].startswith(f"{value}.") for key, value in settings["image"].items()), versions
    assert request["ResourceConfig"]["InstanceType"] == settings["instance_type"]
    assert request["ResourceConfig"]["InstanceCount"] == settings.get("instance_count", 1)
    launched = any(key.endswith("_enabled") for key in request["HyperParameters"] if key.startswith("sagemaker_"))
    assert launched == (settings.get("devices", 1) > 1)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_request_for_a_gpu(built: Built, tmp_path: Path, path: Path) -> None:
    script = read(path)["script"]
    for folder in (script["source"], *script.get("channels", {}).values()):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "train.txt").write_text("a line of data\n")
    (tmp_path / script["source"] / script["entry_point"].split()[0]).write_text("print('training')\n")
    (tmp_path / script["source"] / "requirements.txt").write_text("evaluate\n")
    (tmp_path / path.name).write_text(path.read_text())
    values = ON_GPU.get(path.stem, {})
    options = {f"script.hyperparameters.{name}": value for name, value in values.items()}
    request = built(str(tmp_path / path.name), **ACCOUNT, **{"machine.instance_type": "ml.g5.xlarge"}, **options)
    image = image_of(request)
    assert image.on_gpu
    assert f"`v{image.transformers}`" in DOCUMENT
    channels = {each["ChannelName"] for each in request.get("InputDataConfig", [])}
    assert channels == set(script.get("channels", {}))
    for name, value in values.items():
        assert re.search(rf"\b{path.stem}\.yaml.*--script\.hyperparameters\.{name} {value}", DOCUMENT)
