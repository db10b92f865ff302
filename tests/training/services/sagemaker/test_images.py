"""AWS's images: the default for a job, those that cannot run our own job, and the table of all."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.planning.load import FOLDER
from tests.conftest import ROOT
from tests.support.requests.building import Built
from tests.support.requests.workloads import ACCOUNT, DLC, FOR_TRAINIUM, FOR_TRCOMP, FOR_V100, NEWEST
from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.services.sagemaker.machines import (
    Image,
    aws_image,
    check_image,
    default_image,
    published_images,
)

TRN1 = {"is_script": True, "instance_type": "ml.trn1.2xlarge"}
P3 = {"instance_type": "ml.p3.2xlarge"}
CANNOT_RUN = [
    ("pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker", {}, "does not contain Transformers"),
    (
        "huggingface-pytorch-training:2.3.0-transformers4.48.0-gpu-py311-cu121-ubuntu20.04",
        {},
        "has Transformers 4.48.0, and tasks need 4.49 or later, with Python 3.10 and PyTorch 2.5: leave machine.image "
        "out; older images run only scripts, such as those in experiments/published/",
    ),
    # AWS publishes no such image today; a mirror may have one.
    ("huggingface-pytorch-training:2.9.0-transformers5.3.0-cpu-py312", {}, "is for CPUs, but ml.g5.xlarge has GPUs"),
    (NEWEST, P3, "which has no kernels for the V100 of ml.p3.2xlarge"),
    # The tag may omit CUDA, which the table states.
    ("huggingface-pytorch-training:2.9-transformers5.3-gpu-py312", P3, "which has no kernels for the V100"),
    (NEWEST, {"fallback_instance_types": ("ml.p3dn.24xlarge",)}, "for the V100 of ml.p3dn.24xlarge"),
    (FOR_TRAINIUM, {}, "is for Trainium, on which only your own script runs"),
    (NEWEST, {"region": "eu-central-1"}, "is in us-east-1, but the jobs run in eu-central-1"),
]
CONFIGS = files("sagemaker.core") / "image_uri_config"
SETTINGS = FOLDER / "sagemaker"
ON_SAGEMAKER = {"machines"}
"""Experiments that name their instance types themselves."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ON_SAGEMAKER)
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
DOCUMENT = (ROOT / "docs" / "script_examples.md").read_text()
ON_GPU = {"nanogpt": {"device": "cuda"}, "nlp_example": {"cpu": "false"}, "word_language_model": {"accel": "true"}}
"""Hyperparameters by which a script uses a GPU."""


def spec(**fields: Any) -> JobSpec:
    """Return our own job on an ml.g5.xlarge in us-east-1, with other fields."""
    own: dict[str, Any] = {"name": "job", "hyperparameters": {}, "channels": {}, "source_uri": "s3://b/source"}
    own |= {"output_uri": "s3://b/output", "instance_type": "ml.g5.xlarge", "region": "us-east-1"}
    return JobSpec(**{**own, **fields})


@pytest.mark.parametrize(
    ("fields", "image"),
    [
        ({"instance_type": "ml.p6-b200.48xlarge"}, NEWEST),
        # A V100 needs a build for CUDA before 12.8.
        ({"instance_type": "ml.p3.2xlarge"}, FOR_V100),
        ({"instance_type": "ml.g5.xlarge", "fallback_instance_types": ("ml.p3dn.24xlarge",)}, FOR_V100),
        ({"is_script": True, "compiler": "trcomp"}, FOR_TRCOMP),
        ({"image_versions": {"transformers": "4.49", "pytorch": "2.5"}}, FOR_V100),
        # A script may do without Transformers, and on CPUs it must.
        ({"is_script": True}, NEWEST),
        ({"is_script": True, "instance_type": "ml.m5.large"}, "pytorch-training:2.10.0-cpu-py313"),
        (
            {"is_script": True, "image_versions": {"transformers": "4.17"}},
            "huggingface-pytorch-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04",
        ),
    ],
)
def test_the_newest_image_that_runs_on_every_type_is_chosen(fields: dict[str, object], image: str) -> None:
    assert default_image(spec(**fields), "us-east-1") == f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_type": "ml.m5.large"}, "no image with Transformers for ml.m5.large (CPUs): set machine.image"),
        ({"instance_type": "ml.p6e-gb200.36xlarge", "is_script": True}, "ml.p6e-gb200.36xlarge (Arm CPUs)"),
        (TRN1, "ml.trn1.2xlarge (Trainium) runs only your own script, in an image that machine.image names by its URI"),
        ({"instance_type": "ml.p3.2xlarge", "image_versions": {"transformers": "5.3"}}, "asks for transformers 5.3"),
        ({"image_versions": {"transformers": "4.36"}}, "For tasks: older images run only scripts, such as those in"),
        # 2.1 is not the beginning of 2.10.
        ({"image_versions": {"pytorch": "2.10"}}, "asks for pytorch 2.10"),
    ],
)
def test_a_job_without_an_image_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        default_image(spec(**fields), "us-east-1")
    assert message in str(error.value)


def test_a_region_without_images_is_refused() -> None:
    with pytest.raises(InputError, match=r"no image huggingface-pytorch-training for ml.g5.xlarge in ap-nowhere-9"):
        default_image(spec(), "ap-nowhere-9")


@pytest.mark.parametrize(("image", "fields", "message"), CANNOT_RUN)
def test_our_own_job_is_refused_and_a_script_is_not(image: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        check_image(spec(image=f"{DLC}/{image}", **fields))
    assert message in str(error.value)
    check_image(spec(image=f"{DLC}/{image}", is_script=True, **fields))


@pytest.mark.parametrize(
    ("image", "fields"),
    [
        (f"{DLC}/{NEWEST}", {}),
        (f"{DLC}/{FOR_V100}", P3),
        # The contents of a user's own image are unknown.
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1.0-gpu-py38", {}),
    ],
)
def test_other_images_pass(image: str, fields: dict[str, object]) -> None:
    check_image(spec(image=image, **fields))


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
    versions = {"transformers": str(image.transformers), "pytorch": image.pytorch}
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
