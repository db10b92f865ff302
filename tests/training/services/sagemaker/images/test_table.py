"""The table of images equals the installed SDK's lists."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from training.services.sagemaker.images.table import published_images

CONFIGS = files("sagemaker.core") / "image_uri_config"


def listed(name: str) -> dict[str, Any]:
    tree = json.loads((CONFIGS / f"{name}.json").read_text())
    return dict(tree.get("training", tree)["versions"])


@pytest.mark.parametrize("name", ["huggingface", "huggingface-training-compiler"])
def test_images_with_transformers_are_those_of_the_sdk(name: str) -> None:
    expected = {
        (each["repository"], transformers, framework[7:], each["py_versions"][0][2:])
        for transformers, frameworks in listed(name).items()
        for framework, each in frameworks.items()
        if framework.startswith("pytorch")
    }
    [repository] = {repository for repository, *_ in expected}
    ours = [each for each in published_images() if each.repository == repository]
    assert {(each.repository, each.transformers, each.pytorch, each.python) for each in ours} == expected
    for each in ours:
        cuda = listed(name)[each.transformers][f"pytorch{each.pytorch}"].get("container_version", {}).get("gpu")
        assert each.cuda == (cuda.split("-")[0] if cuda else None)


@pytest.mark.parametrize(
    ("name", "repository"),
    [("pytorch", "pytorch-training"), ("pytorch-training-compiler", "pytorch-trcomp-training")],
)
def test_images_without_transformers_are_those_of_the_sdk(name: str, repository: str) -> None:
    expected = {
        (version, each["py_versions"][-1][2:])
        for version, each in listed(name).items()
        if each["repository"] == repository
    }
    ours = [each for each in published_images() if each.repository == repository]
    assert {(each.pytorch, each.python) for each in ours} == expected
    assert {each.transformers for each in ours} == {None}
