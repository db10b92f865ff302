"""Test the choice of an inference image for a trained model, and the toolkit's environment in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.endpoints.sagemaker.images import chosen, inference_image, trained_with
from models.endpoints.sagemaker.toolkit import environment, needs_code, task_of
from training.contract.errors import InputError

LISTED = [(4, 26, 0), (4, 28, 1), (4, 51, 3), (5, 5, 3)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((4, 28, 1), (4, 28, 1)),
        ((4, 21, 1), (4, 26, 0)),
        ((4, 26, 1), (4, 28, 1)),
        ((4, 56, 2), (4, 51, 3)),
        ((5, 3, 0), (5, 5, 3)),
        ((5, 23, 0), (5, 5, 3)),
        ((6, 0, 0), (5, 5, 3)),
        (None, (5, 5, 3)),
    ],
)
def test_the_version_that_suits(wanted: tuple[int, int, int] | None, found: tuple[int, int, int]) -> None:
    assert chosen(wanted, LISTED) == found


def test_what_a_run_tells() -> None:
    assert trained_with("torch 2.9.0, transformers 5.3.0") == (5, 3, 0)
    assert trained_with("torch 2.13.0+cpu, transformers 4.57") == (4, 57, 0)
    assert trained_with("") is None


REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-inference"


@pytest.mark.parametrize(
    ("versions", "machine", "tag", "note"),
    [
        ("transformers 4.26.0", "ml.g4dn.xlarge", "1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04", None),
        ("transformers 4.26.0", "ml.m5.xlarge", "1.13.1-transformers4.26.0-cpu-py39-ubuntu20.04", None),
        (
            "torch 1.11.0, transformers 4.21.1",
            "ml.g4dn.xlarge",
            "1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04",
            "trained with Transformers 4.21.1; AWS's next newer image has 4.26.0",
        ),
        (
            "torch 2.13.0, transformers 5.23.0",
            "ml.g5.xlarge",
            "2.6.0-transformers5.5.3-gpu-py312-cu124-ubuntu22.04",
            "trained with Transformers 5.23.0; AWS's newest image has 5.5.3, which may be too old to load the model",
        ),
        (
            "transformers 6.0.0",
            "ml.g5.xlarge",
            "2.6.0-transformers5.5.3-gpu-py312-cu124-ubuntu22.04",
            "trained with Transformers 6.0.0; AWS has no image of this major version, the newest has 5.5.3",
        ),
        (
            "",
            "ml.g5.xlarge",
            "2.6.0-transformers5.5.3-gpu-py312-cu124-ubuntu22.04",
            "the model's Transformers version is unknown; this is AWS's newest image, with Transformers 5.5.3",
        ),
    ],
)
def test_the_image(versions: str, machine: str, tag: str, note: str | None) -> None:
    found = inference_image(versions, machine, "us-east-1")
    assert (found.uri, found.note) == (f"{REGISTRY}:{tag}", note)


def test_no_image() -> None:
    with pytest.raises(InputError, match=r"AWS lists no inference image for banana in us-east-1 \(Invalid SageMaker"):
        inference_image("", "banana", "us-east-1")
    with pytest.raises(InputError, match=r"AWS lists no inference image for ml\.g5\.xlarge in mars-1"):
        inference_image("", "ml.g5.xlarge", "mars-1")


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("BertForSequenceClassification", "classification"),
        ("AlbertForQuestionAnswering", "question-answering"),
        ("GPT2LMHeadModel", "causal-lm"),
        ("LlamaForCausalLM", "causal-lm"),
    ],
)
def test_the_task_of_a_folder(tmp_path: Path, architecture: str, task: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    assert task_of(None, tmp_path) == task


def test_the_container_gets_its_environment() -> None:
    assert environment("causal-lm", "eu-west-1")["HF_TASK"] == "text-generation"
    assert [task for task in ("classification", "question-answering", "causal-lm") if needs_code(task)] == [
        "question-answering"
    ]
