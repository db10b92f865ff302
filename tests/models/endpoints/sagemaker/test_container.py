"""The code in the container: unpacked from the archive like SageMaker, and called like Hugging Face's toolkit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import Account
from tests.support.endpoints.toolkit import Toolkit
from training.contract.errors import InputError

Spec = Callable[..., EndpointSpec]
WORDS = ("winter", "is", "coming", "and", "it", "will", "be", "dark", "soon", ".", "when", "?", "the", "moon")


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Remove the archive's modules after the test."""
    yield
    sys.modules.pop("inference", None)


def tiny(folder: Path, head: str, **fields: Any) -> Path:
    """Write a random model of two layers and a tokenizer of a few words."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, PreTrainedTokenizerFast

    known = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=32,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(known), max_position_embeddings=64, **shape, **fields)
    getattr(transformers, head)(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_classifier_answers_from_its_archive(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    """The emotion workload is deployed, gets a request and is undeployed. Its answer equals the pipeline's."""
    from transformers import pipeline

    labels = {0: "sadness", 1: "joy"}
    folder = tiny(tmp_path / "tiny", "BertForSequenceClassification", id2label=labels)
    account.hosting.serve = Toolkit(tmp_path)
    endpoints.deploy(spec(model=folder), lambda _: None)
    question = "Winter is coming and it will be dark soon."
    answer = json.loads(endpoints.predict("emotion", json.dumps({"inputs": question}).encode()))
    assert answer == pipeline("text-classification", model=str(folder), tokenizer=str(folder), device=-1)(question)
    assert answer[0]["label"] in labels.values()
    endpoints.undeploy("emotion", lambda _: None)
    assert account.hosting.names() == {}


@pytest.mark.slow
def test_questions_are_answered_by_the_code_in_the_archive(
    endpoints: SageMakerEndpoints, account: Account, spec: Spec, tmp_path: Path
) -> None:
    folder = tiny(tmp_path / "tiny", "BertForQuestionAnswering")
    account.hosting.serve = Toolkit(tmp_path)
    endpoints.deploy(spec(model=folder, task=None), lambda _: None)
    # Three windows of 32 tokens.
    question = {"question": "when is it dark ?", "context": "the moon is coming and winter will be dark soon . " * 5}
    answer = json.loads(endpoints.predict("emotion", json.dumps({"inputs": question}).encode()))
    assert answer["answer"] == question["context"][answer["start"] : answer["end"]] != ""
    assert 0 < answer["score"] <= 1
    [first, second] = json.loads(endpoints.predict("emotion", json.dumps({"inputs": [question, question]}).encode()))
    assert first == second == answer
    for wrong, message in (
        ({"inputs": {"question": "when ?"}}, "inputs must have question and context"),
        ({"inputs": {"question": " ", "context": "soon"}}, "both non-empty texts"),
        (
            {"inputs": {"question": "when " * 40, "context": "soon"}},
            "43 of the 32 tokens of max_length, which leaves no room",
        ),
        ({"inputs": question, "parameters": {"max_answer_len": 0}}, "max_answer_len is 0: it must be a whole number"),
        ({"inputs": question, "parameters": {"top": 3}}, "it can only have max_answer_len and top_k"),
    ):
        with pytest.raises(InputError, match=message):
            endpoints.predict("emotion", json.dumps(wrong).encode())
