"""The examples of public scripts can be planned on SageMaker with the options of `docs/script_examples.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.planning.load import FOLDER
from tests.conftest import ROOT
from tests.training.services.sagemaker.conftest import Terminal
from training.services.sagemaker.images.table import aws_image

EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
DOCUMENT = (ROOT / "docs" / "script_examples.md").read_text()
ON_GPU = {"nanogpt": {"device": "cuda"}, "nlp_example": {"cpu": "false"}, "word_language_model": {"accel": "true"}}
"""Hyperparameters by which a script uses a GPU."""


def write_folders(script: dict[str, Any], folder: Path) -> None:
    """Write the script's folder and its data, each with a file that stands for the user's."""
    for path in (script["source"], *script.get("channels", {}).values()):
        (folder / path).mkdir(parents=True, exist_ok=True)
        (folder / path / "train.txt").write_text("a line of data\n")
    (folder / script["source"] / script["entry_point"].split()[0]).write_text("print('training')\n")
    (folder / script["source"] / "requirements.txt").write_text("evaluate\n")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_request_for_a_gpu(terminal: Terminal, tmp_path: Path, path: Path) -> None:
    script = yaml.safe_load(path.read_text())["script"]
    write_folders(script, tmp_path)
    (tmp_path / path.name).write_text(path.read_text())
    hyperparameters = ON_GPU.get(path.stem, {})
    options = {
        "experiment": tmp_path / path.name,
        "service": "sagemaker",
        "machine.instance_type": "ml.g5.xlarge",
        "aws.role": "trainer",
        "aws.prices": terminal.fields["aws.prices"],
        **{f"script.hyperparameters.{name}": value for name, value in hyperparameters.items()},
    }
    request = terminal.plan("compare", options)["jobs"][0]["request"]
    image = aws_image(request["AlgorithmSpecification"]["TrainingImage"])
    assert image is not None
    assert image.on_gpu
    assert f"`v{image.transformers}`" in DOCUMENT
    channels = {each["ChannelName"] for each in request.get("InputDataConfig", [])}
    assert channels == set(script.get("channels", {}))
    for name, value in hyperparameters.items():
        assert re.search(rf"\b{path.stem}\.yaml.*--script\.hyperparameters\.{name} {value}", DOCUMENT)
