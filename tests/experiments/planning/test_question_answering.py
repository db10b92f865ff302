"""Test that an invalid question answering experiment fails with one sentence and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.hyperparameters import staging_request
from experiments.planning.load import load
from tests.support.job.squad_examples import model_folder, squad_file
from tests.support.staging.fast_tokenizers import KINDS
from training.contract.errors import InputError
from training.staging.stage import stage

FIELDS: dict[str, Any] = {"task": "question-answering", "max_length": 160, "doc_stride": 40, "epochs": 1}
STANDS = "at answer_start 3 of its context, which has 'e Denv'; it is at 5"


@pytest.mark.parametrize(
    ("changes", "fields", "sentence"),
    [
        ({"answers": {}}, {}, "data[0].paragraphs[0].qas[1].answers must be a list, not a dict"),
        (
            {"answers": [{"text": "Denver", "answer_start": 3}]},
            {},
            f"question 2 ('0-1'): the answer 'Denver' is not {STANDS}",
        ),
        ({"id": "0-0"}, {}, "question 2: the question id '0-0' is not unique"),
        ({}, {"doc_stride": 160}, "doc_stride 160 must be smaller than max_length 160"),
        ({}, {"max_length": 40, "doc_stride": 39}, "doc_stride is 39 and must be smaller"),
        ({}, {"data": {"train": "x.json", "labels": ["a", "b"]}}, "data.labels requires task classification"),
        ({}, {"max_length": 513}, "max_length is 513, but"),
    ],
)
def test_an_invalid_experiment_is_refused(
    tmp_path: Path, changes: Mapping[str, Any], fields: Mapping[str, Any], sentence: str
) -> None:
    model = model_folder(tmp_path / "model", KINDS["wordpiece"](), "bert")
    data = squad_file(tmp_path, 2)
    document = json.loads(data.read_text())
    document["data"][0]["paragraphs"][0]["qas"][1].update(changes)
    data.write_text(json.dumps(document))
    path = tmp_path / "questions.yaml"
    named = {"model": str(model), "data": {"train": str(data), "validation": str(data)}}
    path.write_text(json.dumps({**FIELDS, **named, **fields}))
    with pytest.raises(InputError) as caught:
        stage(staging_request(load(str(path), {})), tmp_path / "home")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "home").exists()
