"""Labels and scores equal those of `transformers.pipeline`, one at a time and in batches, and errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from models.inference.predictor import Predictor, load_predictor
from tests.support.models.task_models import TEXTS
from training.contract.errors import InputError
from training.job.tasks.inputs import BadInputs

# The pipeline takes a pair whose second text is empty for a single text, which the tokenizer in training does not.
PAIRS = [{"text": a, "text_pair": b} for a, b in zip(TEXTS, reversed(TEXTS), strict=True) if b]


def assert_same(mine: dict[str, Any], pipelines: dict[str, Any]) -> None:
    assert mine["label"] == pipelines["label"]
    assert mine["score"] == pytest.approx(pipelines["score"], abs=1e-5)


def test_answers_equal_the_pipelines(classifier: Predictor, classifier_folder: Path) -> None:
    pipe = pipeline("text-classification", model=str(classifier_folder))
    inputs_of_both = [*TEXTS, *PAIRS]
    expected = [pipe(each, truncation=True, max_length=64) for each in inputs_of_both]
    flat = [each[0] if isinstance(each, list) else each for each in expected]
    assert len({each["label"] for each in flat}) > 1
    for mine, pipelines in zip(classifier.answer(inputs_of_both), flat, strict=True):
        assert_same(mine, pipelines)
    for each, pipelines in zip(inputs_of_both, flat, strict=True):
        assert_same(classifier.answer(each)[0], pipelines)


@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_a_batch_gives_the_same_answers_as_single_inputs(other_classifiers: dict[str, Path], kind: str) -> None:
    predictor = load_predictor(other_classifiers[kind], precision="fp32")
    pipe = pipeline("text-classification", model=str(other_classifiers[kind]))
    texts = [text for text in TEXTS if text]
    for text, mine in zip(texts, predictor.answer(texts), strict=True):
        assert_same(mine, pipe(text, truncation=True, max_length=64)[0])


def test_a_text_without_tokens_is_refused(other_classifiers: dict[str, Path], classifier: Predictor) -> None:
    gpt = load_predictor(other_classifiers["gpt2"], precision="fp32")
    assert gpt.encode_may_refuse
    empty_pair = {"text": "", "text_pair": ""}
    for inputs, where in (("", "inputs"), (["a", ""], r"inputs\[1\]"), (empty_pair, "inputs")):
        with pytest.raises(BadInputs, match=f"^{where} has no tokens: this model's tokenizer makes none of the text"):
            gpt.encode(gpt.read(inputs))
    # One whose tokenizer adds some answers, and no file is tokenised twice for it.
    assert not classifier.encode_may_refuse
    assert classifier.answer(["", empty_pair])


def test_all_labels_or_the_likeliest_few(classifier: Predictor, classifier_folder: Path) -> None:
    pipe = pipeline("text-classification", model=str(classifier_folder))
    for top_k in (1, 2, None):
        (mine,) = classifier.answer(TEXTS[0], {"top_k": top_k})
        for one, other in zip(mine, pipe(TEXTS[0], top_k=top_k), strict=True):
            assert_same(one, other)
    (raw,) = classifier.answer(TEXTS[0], {"function_to_apply": "none", "top_k": None})
    for one, other in zip(raw, pipe(TEXTS[0], function_to_apply="none", top_k=None), strict=True):
        assert_same(one, other)


def test_texts_are_truncated_to_the_requested_length(classifier: Predictor, classifier_folder: Path) -> None:
    (long,) = classifier.encode(classifier.read(TEXTS[-2] * 20))
    assert long.length == 64
    short = load_predictor(classifier_folder, max_length=10)
    (cut,) = short.encode(short.read(TEXTS[0]))
    assert cut.length == 10
    with pytest.raises(InputError, match="max_length is 65, but the model accepts at most 64 tokens"):
        load_predictor(classifier_folder, max_length=65)


@pytest.mark.parametrize(
    ("inputs", "parameters", "message"),
    [
        (["fine", 4.5], None, r"inputs\[1\] must be an object with 'text', not 4.5"),
        ({"txt": "a"}, None, "inputs has no 'text'"),
        ({"text": "a", "text_pair": []}, None, "inputs.text_pair must be text, not a list"),
        ("a", {"topk": 1}, "parameter 'topk' is unknown.* Did you mean 'top_k'"),
        ("a", {"top_k": True}, "parameter top_k is True: it must be a whole number from 1"),
        ("a", {"function_to_apply": "max"}, "it must be one of softmax, sigmoid, none"),
    ],
)
def test_other_inputs_and_parameters_are_refused(
    classifier: Predictor, inputs: object, parameters: Any, message: str
) -> None:
    with pytest.raises(BadInputs, match=message):
        classifier.read(inputs, parameters)


def test_a_folder_without_a_model_is_refused(classifier_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config.json"):
        load_predictor(tmp_path)
    broken = tmp_path / "broken"
    shutil.copytree(classifier_folder, broken)
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"the model in .*broken cannot be loaded"):
        load_predictor(broken)
    with pytest.raises(InputError, match="task is 'translation': it must be one of"):
        load_predictor(classifier_folder, task="translation")
