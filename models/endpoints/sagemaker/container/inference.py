"""Answers questions about texts in SageMaker's inference container, whose Transformers has no pipeline for it.

Hugging Face's inference toolkit imports this as `code/inference.py` and calls `model_fn` once, `predict_fn` for each
request. It stands alone: the container has torch and Transformers. The answers and the parameters are those of the
pipeline that Transformers had until version 4.
"""

from typing import Any

import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

MOST_TOKENS = 384
"""Of question and context in one window."""
STRIDE_TOKENS = 128
"""By which two windows of a long context overlap."""
MOST_ANSWER_TOKENS = 15
FIELDS = ("question", "context")


def model_fn(model_dir: str) -> tuple[Any, Any]:
    """Return the tokenizer and the model, where there is a GPU on it."""
    model = AutoModelForQuestionAnswering.from_pretrained(model_dir)
    return AutoTokenizer.from_pretrained(model_dir), model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def predict_fn(data: Any, loaded: tuple[Any, Any]) -> Any:
    """Return the answer to `{"inputs": {"question": ..., "context": ...}}`, or answers to a list of them.

    Raises ValueError for anything else, which the toolkit answers with status 400.
    """
    inputs = data.get("inputs", data) if isinstance(data, dict) else data
    parameters = data.get("parameters") if isinstance(data, dict) else None
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict) or parameters.keys() - {"max_answer_len"}:
        raise ValueError(f"parameters is {parameters!r}: it may hold max_answer_len alone")
    most = parameters.get("max_answer_len", MOST_ANSWER_TOKENS)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise ValueError(f"max_answer_len is {most!r}: it must be a whole number from 1")
    if isinstance(inputs, list):
        return [_answered(each, most, *loaded) for each in inputs]
    return _answered(inputs, most, *loaded)


def _answered(asked: Any, most: int, tokenizer: Any, model: Any) -> dict[str, Any]:
    for name in FIELDS:
        if not isinstance(asked, dict) or not isinstance(asked.get(name), str) or not asked[name].strip():
            raise ValueError(
                f"inputs must hold question and context, each a text that is not empty, not {asked!r:.200}"
            )
    windows = _windows(asked["question"], asked["context"], tokenizer)
    offsets = windows.pop("offset_mapping")
    in_context = torch.tensor([[part == 1 for part in windows.sequence_ids(at)] for at in range(len(offsets))])
    with torch.inference_mode():
        told = model(**{name: values.to(model.device) for name, values in windows.items()})
    score, window, first, last = best_span(told.start_logits.cpu(), told.end_logits.cpu(), in_context, most)
    start, end = int(offsets[window][first][0]), int(offsets[window][last][1])
    return {"score": score, "start": start, "end": end, "answer": asked["context"][start:end]}


def _windows(question: str, context: str, tokenizer: Any) -> Any:
    length = min(tokenizer.model_max_length, MOST_TOKENS)
    room = length - len(tokenizer(question)["input_ids"]) - 1
    if room < 2:
        raise ValueError("the question is so long that no room is left for its context")
    windows = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=length,
        stride=min(STRIDE_TOKENS, room // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=True,
        return_tensors="pt",
    )
    windows.pop("overflow_to_sample_mapping")
    return windows


def best_span(
    starts: torch.Tensor, ends: torch.Tensor, in_context: torch.Tensor, most: int
) -> tuple[float, int, int, int]:
    """Return the likeliest answer: its probability, window, first and last token.

    `starts` and `ends` are logits and `in_context` booleans, windows x tokens; an answer has 1 to `most` tokens, all
    of them in the context. Each window's probabilities are its own, as in the pipeline.
    """
    outside = ~in_context
    first = starts.float().masked_fill(outside, -1e9).softmax(-1).masked_fill(outside, 0.0)
    last = ends.float().masked_fill(outside, -1e9).softmax(-1).masked_fill(outside, 0.0)
    spans = (first[:, :, None] * last[:, None, :]).triu().tril(most - 1)
    at = int(spans.argmax())
    window, rest = divmod(at, spans.shape[1] * spans.shape[2])
    return float(spans.flatten()[at]), window, rest // spans.shape[2], rest % spans.shape[2]
