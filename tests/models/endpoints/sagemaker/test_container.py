"""The code in the container: unpacked from the archive like SageMaker, and called like Hugging Face's toolkit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import Account
from tests.support.endpoints.toolkit import Toolkit
from training.contract.errors import InputError

pytestmark = pytest.mark.slow

Spec = Callable[..., EndpointSpec]


def test_questions_are_answered_by_the_code_in_the_archive(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, reader_folder: Path, tmp_path: Path
) -> None:
    """Old images too get our code. `test_answers_everywhere` compares its answers with those of the evaluation."""
    account.hosting.serve = Toolkit(tmp_path)
    endpoints.deploy(spec(model=reader_folder, task=None, versions="transformers 4.51.3"), lambda _: None)
    question = {"question": "When is it dark?", "context": "Winter is coming and it will be dark soon."}
    answer = json.loads(endpoints.predict("emotion", json.dumps({"inputs": question}).encode()))
    assert answer["answer"] == question["context"][answer["start"] : answer["end"]] != ""
    assert json.loads(endpoints.predict("emotion", json.dumps({"inputs": [question] * 2}).encode())) == [answer] * 2
    for wrong, message in (
        ({"inputs": {"question": "when ?"}}, "inputs must have question and context"),
        ({"inputs": {"question": " ", "context": "soon"}}, "both non-empty texts"),
        ({"inputs": question, "parameters": {"max_answer_len": 0}}, "max_answer_len is 0: it must be a whole number"),
        (
            {"inputs": question, "parameters": {"top": 3}},
            "it can only have max_answer_len, top_k and handle_impossible_answer",
        ),
    ):
        with pytest.raises(InputError, match=message):
            endpoints.predict("emotion", json.dumps(wrong).encode())
