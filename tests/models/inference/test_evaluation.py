"""Settings of an evaluation, as a run records them, and the precision of predictions."""

from __future__ import annotations

import pytest

from models.inference.evaluation import (
    UNKNOWN,
    Evaluation,
    choose_precision,
    evaluation_of,
)
from training.contract.errors import InputError

PARAMS = {
    "hp.precision": "bf16",
    "hp.attention": "eager",
    "hp.eval_batch_size": "16",
    "hp.padding": "buckets",
    "hp.max_length": "64",
}


def test_a_run_records_the_settings_of_its_evaluation() -> None:
    expected = Evaluation(precision="bf16", attention="eager", batch_size=16, max_length=64)
    assert evaluation_of(PARAMS, "classification") == expected
    assert evaluation_of({**PARAMS, "hp.padding": "max_length"}, "question-answering").pads_to_max_length
    # A training in 8 bits is evaluated in 16, and one with blockwise attention in Transformers' own.
    eight_bits = evaluation_of({**PARAMS, "hp.precision": "fp8", "hp.attention": "blockwise"}, "classification")
    assert (eight_bits.precision, eight_bits.attention) == ("bf16", "eager")


def test_unknown_settings_keep_their_defaults() -> None:
    assert evaluation_of({}, "") == UNKNOWN
    script = {"hp.precision": "mixed", "hp.attention": "auto", "hp.eval_batch_size": "auto", "hp.max_length": "9"}
    assert evaluation_of(script, "causal-lm") == UNKNOWN


@pytest.mark.parametrize(
    ("requested", "evaluated", "expected"),
    [
        (None, "bf16", "bf16"),
        ("auto", None, "fp32"),
        ("auto", "fp16", "fp32"),
        ("bf16", "fp32", "bf16"),
    ],
)
def test_the_precision_is_the_requested_or_evaluated_one(
    requested: str | None, evaluated: str | None, expected: str
) -> None:
    assert choose_precision(requested, evaluated, "cpu") == expected


def test_an_unknown_or_impossible_precision_is_refused() -> None:
    with pytest.raises(InputError, match="precision is 'fp8': it must be one of auto, fp32, bf16, fp16"):
        choose_precision("fp8", None, "cpu")
    with pytest.raises(InputError, match="precision is 'fp16', which needs a GPU"):
        choose_precision("fp16", "fp16", "cpu")
