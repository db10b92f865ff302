"""The best span: by hand, the same one at a time and in batches, and with its position in the context."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from models.inference.predictor import Predictor, load_predictor
from tests.support.staging.fast_tokenizers import CORPUS
from training.job.tasks import answer_spans, question_answering
from training.job.tasks.inputs import BadInputs

LONG = " ".join(CORPUS * 6)
EXAMPLES = [{"question": "Who won?", "context": context} for context in (*CORPUS, LONG, f"  {CORPUS[0]} ")]


def test_the_best_span_by_hand() -> None:
    # Window 1 holds tokens 0 to 2, window 2 tokens 2 to 3. Sums: 0-0: 1+0, 0-1: 1+2, 1-1: 0+2, 2-2: 5+(-1) in the
    # first window and 3+0 in the second, 2-3: 3+4, 3-3: 0+4; 0-2 and 1-2 are 1-1 and 0-1; a start behind its end counts
    # for nothing.
    starts = [np.array([1.0, 0.0, 5.0]), np.array([3.0, 0.0])]
    ends = [np.array([0.0, 2.0, -1.0]), np.array([0.0, 4.0])]
    windows = answer_spans.Windows(np.zeros(2, int), np.zeros(2, int), np.array([0, 2]), np.array([3, 2]))
    spans = answer_spans.n_best_spans(windows, starts, ends, answer_spans.AnswerOptions(), 30)
    assert spans[:4] == [(7.0, 2, 3), (4.0, 2, 2), (4.0, 3, 3), (3.0, 0, 1)]
    assert len(spans) == len({each[1:] for each in spans}) == 8
    one_token = answer_spans.AnswerOptions(max_answer_length=1)
    assert answer_spans.n_best_spans(windows, starts, ends, one_token, 1) == [(4.0, 2, 2)]


def test_the_score_is_the_product_of_both_probabilities(reader: Predictor) -> None:
    example = EXAMPLES[0]
    (mine,) = reader.answer(example)
    encoding = reader.loaded.tokenizer(example["question"], example["context"], return_tensors="pt")
    with torch.inference_mode():
        made = reader.loaded.model(**encoding)
    in_context = [at for at, each in enumerate(encoding.sequence_ids()) if each == 1]
    start, end = (logits[0, in_context].double() for logits in (made.start_logits, made.end_logits))
    best = max((float(start[i] + end[j]), i, j) for i in range(len(start)) for j in range(i, min(i + 30, len(start))))
    probability = math.exp(best[0] - float(start.logsumexp(0)) - float(end.logsumexp(0)))
    assert mine["score"] == pytest.approx(probability, rel=1e-4)
    spans = [encoding.encodings[0].offsets[at] for at in in_context]
    assert (mine["start"], mine["end"]) == (spans[best[1]][0], spans[best[2]][1])


def test_a_long_context_is_cut_into_windows_that_cover_it(reader: Predictor, reader_folder: Path) -> None:
    (encoded,) = reader.encode(reader.read(EXAMPLES[3], {"max_seq_len": 40, "doc_stride": 8}))
    assert len(encoded.rows) > 10
    assert encoded.length == 40
    offsets, windows, _ = encoded.detail
    covered = {
        at
        for first, tokens in zip(windows.first_token, windows.tokens, strict=True)
        for at in range(first, first + tokens)
    }
    assert covered == set(range(len(offsets)))
    trained = load_predictor(reader_folder, max_length=48)
    (encoded,) = trained.encode(trained.read(EXAMPLES[3]))
    assert encoded.length == 48


def test_too_many_windows_are_refused(reader: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused before they are created. Of 64 tokens, 3 are special and one is the question's."""
    example = {"question": "the", "context": "the " * 5_000}
    monkeypatch.setattr(question_answering, "MAX_WINDOWS", 4_940)
    with pytest.raises(BadInputs, match=r"with doc_stride 59, the context becomes 4,941 windows of 64 tokens\."):
        reader.encode(reader.read(example, {"doc_stride": 59}))
    (encoded,) = reader.encode(reader.read(example, {"doc_stride": 30}))
    assert len(encoded.rows) == math.ceil((5_000 - 30) / (60 - 30))


def test_the_best_answers_are_returned_in_order(reader: Predictor) -> None:
    (several,) = reader.answer(EXAMPLES[3], {"top_k": 5, "max_answer_len": 3})
    scores = [each["score"] for each in several]
    assert len(several) == 5
    assert scores == sorted(scores, reverse=True)
    assert len({(each["start"], each["end"]) for each in several}) == 5


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"question": "Who?"}, "inputs has no 'context'"),
        ({"question": " ", "context": "x"}, "inputs.question is empty"),
        ({"question": "Who?", "context": ""}, "inputs.context is empty"),
        ({"question": "Who?", "context": "\u200b\x00"}, "the tokenizer finds no tokens in its context"),
        ({"question": "won " * 80, "context": LONG}, "the question takes .* tokens of max_length"),
    ],
)
def test_an_unanswerable_question_is_refused(reader: Predictor, inputs: object, message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        reader.encode(reader.read(inputs))
