"""A model runs in the precision of its evaluation, to the bit as the job's autocast does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from models.inference.evaluation import Evaluation
from models.inference.predictor import Loaded, load_predictor
from training.job.tasks.inputs import TokenRow as Row

EVALUATION = Evaluation(precision="bf16", attention="eager", batch_size=4)
ROWS = [Row(list(range(5, 5 + length)), None) for length in (3, 9, 20)]


def mixed(folder: Path, head: str, width: int) -> Any:
    """Return the logits that a job's evaluation computes: autocast over weights in fp32."""
    model = getattr(transformers, head).from_pretrained(folder, attn_implementation="eager").eval()
    fill = model.config.pad_token_id or 0
    ids = torch.tensor([row.ids + [fill] * (width - len(row.ids)) for row in ROWS])
    mask = torch.tensor([[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in ROWS])
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(input_ids=ids, attention_mask=mask)
    return output[0].float(), mask.bool()


def loaded(folder: Path, **options: Any) -> Loaded:
    return load_predictor(folder, **options).loaded


@pytest.mark.parametrize("kind", ["classifier", "reader", "writer"])
def test_logits_equal_those_of_autocast(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(f"{kind}_folder")
    head = {
        "classifier": "AutoModelForSequenceClassification",
        "reader": "AutoModelForQuestionAnswering",
        "writer": "AutoModelForCausalLM",
    }[kind]
    model = loaded(folder, evaluation=EVALUATION)
    expected, mask = mixed(folder, head, 20)
    logits = model.forward(ROWS)[0].float()
    assert torch.equal(
        logits[mask] if kind != "classifier" else logits, expected[mask] if kind != "classifier" else expected
    )
    single = loaded(folder).forward(ROWS)[0]
    assert not torch.equal(single, logits)
    # Embeddings, and an output layer that shares its weights with them, stay in single precision.
    assert model.model.get_input_embeddings().weight.dtype == torch.float32


def test_only_the_default_precision_keeps_the_batches_of_the_evaluation(classifier_folder: Path) -> None:
    default = loaded(classifier_folder, evaluation=EVALUATION)
    assert (default.precision, default.batch_size, default.row_tokens) == ("bf16", 4, None)
    assert default.model.config._attn_implementation == "eager"
    for precision in ("fp32", "bf16"):
        assert loaded(classifier_folder, evaluation=EVALUATION, precision=precision).batch_size is None
    assert loaded(classifier_folder).batch_size is None


def test_rows_are_padded_as_in_the_evaluation(classifier_folder: Path) -> None:
    evaluation = Evaluation(precision="bf16", attention="eager", batch_size=4, pads_to_max_length=True, max_length=32)
    model = loaded(classifier_folder, evaluation=evaluation)
    assert (model.max_length, model.row_tokens) == (32, 32)
    expected, _ = mixed(classifier_folder, "AutoModelForSequenceClassification", 32)
    assert torch.equal(model.forward(ROWS).logits.float(), expected)
