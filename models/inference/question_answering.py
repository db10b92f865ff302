"""Find the span of a context that answers a question, in the format of Transformers 4's question-answering pipeline.

Windows, spans and scores are computed as in evaluation: see `training/job/tasks/answer_spans.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.inference.inputs import (
    BadInputs,
    Example,
    Rule,
    as_list,
    fields,
    input_name,
    parameters,
    text,
    whole_number,
)
from models.inference.loaded_model import Encoded, Loaded, Row
from training.job.tasks import answer_spans

HEAD = "AutoModelForQuestionAnswering"

MAX_TOP_K = 20
MAX_WINDOWS = 10_000
"""Most windows of one context. More would need gigabytes before the model runs."""

PARAMETERS: Mapping[str, Rule] = {
    "top_k": whole_number(1, MAX_TOP_K),
    "max_answer_len": whole_number(1, 1_000),
    "max_seq_len": whole_number(8, 100_000),
    "doc_stride": whole_number(1, 100_000),
}
"""With `top_k`, the answer is a list. The other parameters are tokens; `doc_stride` is the overlap of two windows."""


class ContextWindows(NamedTuple):
    """A question's context, cut into windows by `answer_spans`."""

    offsets: list[tuple[int, int]]
    """Range of characters that each token of the context covers: first, one past the last."""
    windows: Any
    """Position of the context in each window: `answer_spans.Windows`."""


def encode_may_refuse(loaded: Loaded) -> bool:
    """Return True: `encode` rejects questions that leave no room for their context."""
    return True


def read(loaded: Loaded, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
    """Return the questions. An input is an object with `question` and `context`."""
    options = parameters(arguments, PARAMETERS)
    values = as_list(inputs)
    return [_example(input_name(at, len(values)), each, options) for at, each in enumerate(values)]


def _example(location: str, value: object, options: Mapping[str, Any]) -> Example:
    texts = fields(location, value, needed=("question", "context"))
    question = text(f"{location}.question", texts["question"], may_be_blank=False)
    return Example(location, question, text(f"{location}.context", texts["context"], may_be_blank=False), options)


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Tokenize the questions and cut their contexts into windows. Raises `BadInputs`."""
    return [_encoded(loaded, example) for example in examples]


def _encoded(loaded: Loaded, example: Example) -> Encoded:
    tokens = answer_spans.tokenize(loaded.tokenizer, example.text, str(example.pair))
    if not tokens.offsets:
        raise BadInputs(f"{example.location}: the tokenizer finds no tokens in its context")
    length = _window_tokens(loaded, example.options)
    stride = example.options.get("doc_stride", answer_spans.stride_of(loaded.answer_options, length))
    step = tokens.room(length) - stride  # `cut` rejects a step of 0 or less
    if step > 0 and (count := math.ceil((len(tokens.offsets) - stride) / step)) > MAX_WINDOWS:
        raise BadInputs(
            f"{example.location}: with doc_stride {stride}, the context becomes {count:,} windows of {length} tokens. "
            f"At most {MAX_WINDOWS:,} are possible: lower doc_stride or raise max_seq_len"
        )
    try:
        rows, cut = answer_spans.cut(tokens, length, stride)
    except ValueError as error:
        raise BadInputs(f"{example.location}: {error}") from error
    output = tuple(Row(ids, type_ids if loaded.takes_types else None) for ids, type_ids in rows)
    return Encoded(example, output, ContextWindows(tokens.offsets, cut))


def _window_tokens(loaded: Loaded, options: Mapping[str, Any]) -> int:
    """Return the tokens of a window: as requested, else as in training, but never more than the model accepts."""
    trained = loaded.max_length if loaded.is_cut else None
    requested = int(options.get("max_seq_len", trained or loaded.answer_options.max_length))
    return min(requested, loaded.max_length or requested)


def outputs(loaded: Loaded, rows: Sequence[Row]) -> list[Any]:
    """Return the start logits and the end logits of each row, without padding."""
    output = loaded.forward(rows)
    starts, ends = (logits.float().cpu().numpy() for logits in (output.start_logits, output.end_logits))
    width = starts.shape[1]
    spans = [slice(width - len(row.ids), width) if loaded.padding.on_left else slice(len(row.ids)) for row in rows]
    return [(start[span], end[span]) for start, end, span in zip(starts, ends, spans, strict=True)]


def answers(loaded: Loaded, encoded: Sequence[Encoded], outputs: Sequence[Any]) -> list[Any]:
    """Return `{"answer", "score", "start", "end"}` for each question, given the logits of all their rows in order.

    With `top_k`, it is a list of them. Start and end are character positions in the context. The answer is empty if no
    span is possible.
    """
    made, at = [], 0
    for each in encoded:
        starts, ends = zip(*outputs[at : at + len(each.rows)], strict=True)
        made.append(_answer(loaded, each, starts, ends))
        at += len(each.rows)
    return made


def _answer(loaded: Loaded, encoded: Encoded, starts: Sequence[np.ndarray], ends: Sequence[np.ndarray]) -> Any:
    windows, request = encoded.detail.windows, encoded.example.options
    own = [slice(at, at + tokens) for at, tokens in zip(windows.context_at, windows.tokens, strict=True)]
    options = loaded.answer_options
    answers = answer_spans.answers_of(
        encoded.example.pair,
        encoded.detail.offsets,
        windows,
        [line[part] for line, part in zip(starts, own, strict=True)],
        [line[part] for line, part in zip(ends, own, strict=True)],
        options._replace(max_answer_length=request.get("max_answer_len", options.max_answer_length)),
        request.get("top_k", 1),
    )
    if "top_k" in request:
        return answers
    return answers[0] if answers else answer_spans.no_answer()
