"""Settings of an evaluation, as a run records them."""

from __future__ import annotations

from models.loading.evaluation import UNKNOWN, Evaluation, evaluation_from_json, evaluation_of

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
    assert evaluation_from_json(expected.to_json()) == expected
    assert evaluation_of({**PARAMS, "hp.padding": "max_length"}, "question-answering").pads_to_max_length


def test_a_training_in_8_bits_was_evaluated_in_bf16() -> None:
    assert evaluation_of({**PARAMS, "hp.precision": "fp8"}, "classification").precision == "bf16"


def test_a_training_with_blockwise_attention_was_evaluated_with_eager() -> None:
    assert evaluation_of({**PARAMS, "hp.attention": "blockwise"}, "classification").attention == "eager"


def test_unknown_settings_keep_their_defaults() -> None:
    assert evaluation_of({}, "") == evaluation_from_json(None) == UNKNOWN
    script = {"hp.precision": "mixed", "hp.attention": "auto", "hp.eval_batch_size": "auto", "hp.max_length": "9"}
    assert evaluation_of(script, "causal-lm") == UNKNOWN
