"""Text generation: the same texts as the pipeline, one at a time and in batches, and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from models.inference.predictor import Predictor
from training.job.tasks import TASKS
from training.job.tasks.inputs import BadInputs

TEXTS = ["The Denver", "Who won? What's the name of", "S"]


def test_generated_texts_equal_the_pipelines(writer: Predictor, writer_folder: Path) -> None:
    pipe = pipeline("text-generation", model=str(writer_folder))
    expected = [pipe(text, max_new_tokens=6, do_sample=False)[0] for text in TEXTS]
    assert writer.answer(TEXTS, {"max_new_tokens": 6}) == expected
    assert [writer.answer(text, {"max_new_tokens": 6})[0] for text in TEXTS] == expected
    batch = writer.answer(TEXTS, {"max_new_tokens": 6, "return_full_text": False})
    assert [text + each["generated_text"] for text, each in zip(TEXTS, batch, strict=True)] == [
        each["generated_text"] for each in expected
    ]


def test_texts_with_different_parameters_run_in_one_batch(writer: Predictor) -> None:
    few, many = ({"max_new_tokens": count} for count in (2, 9))
    task = TASKS["causal-lm"]
    encoded = [*writer.encode(writer.read(TEXTS[:2], few)), *writer.encode(writer.read(TEXTS, many))]
    mixed = [encoded[at] for at in (0, 2, 1, 3, 4)]
    expected = [task.generate(writer.loaded, [each])[0] for each in mixed]
    assert task.generate(writer.loaded, mixed) == expected


@pytest.mark.parametrize(
    ("inputs", "parameters", "message"),
    [
        ("", None, "inputs is empty"),
        ("a", {"max_new_tokens": 0}, "max_new_tokens is 0: it must be a whole number from 1 to 2,048"),
        ("a", {"max_new_tokens": 128}, "the model accepts at most 128 in total"),
        ("a", {"temperature": 0.5}, "temperature requires do_sample true"),
    ],
)
def test_values_outside_the_limits_are_refused(writer: Predictor, inputs: Any, parameters: Any, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        writer.encode(writer.read(inputs, parameters))


def test_sampled_tokens_differ(writer: Predictor) -> None:
    drawn = writer.answer([TEXTS[0]] * 8, {"do_sample": True, "temperature": 5.0, "max_new_tokens": 8, "top_p": 1.0})
    assert len({each["generated_text"] for each in drawn}) > 1
