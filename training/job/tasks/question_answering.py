"""Question answering: find the span of a context that answers a question.

A context that is longer than a row is divided into windows (`answer_spans.py`). Scores are SQuAD's (`squad.py`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_text, from_json, short_text
from training.job.tasks.encodings import integers, takes_types, token_columns
from training.job.tasks.inputs import BadInputs, EncodedInput, Example, Rule, TokenRow, boolean, whole_number
from training.job.tasks.task import (
    F1,
    LOSS,
    MAX_TOKENS,
    ColumnNames,
    Encoded,
    Encoder,
    LoadedModel,
    Metric,
    Option,
    Row,
    Scorer,
    Task,
)

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.tasks.answer_spans import Offsets, Tokens
    from training.job.weights.pretrained import Pretrained

SQUAD_COLUMNS = ("id", "context", "question", "answers")
"""Columns of the Hub's `squad`."""


class QuestionAnswering(Task):
    """Answers that are spans of a context. A row of the data is a question, a row of the channel is a window."""

    name = "question-answering"
    other_names = ("qa", "squad", "squad-v2", "extractive-qa")
    row = "question"
    without_rows = "no questions"
    group = "context"
    rows_per_batch = 500
    cut = "divided"
    options: Mapping[str, Option] = {
        "doc_stride": Option(
            int,
            128,
            "Questions: tokens of the context that two neighbouring windows share. Must be below `max_length`.",
            {"ge": 0, "le": MAX_TOKENS},
        ),
        "n_best_answers": Option(
            int,
            20,
            "Questions: most likely starts and ends per window that are combined into answers.",
            {"ge": 1, "le": 1_000},
        ),
        "max_answer_length": Option(int, 30, "Questions: longest answer, in tokens.", {"ge": 1, "le": MAX_TOKENS}),
        "unanswerable": Option(
            Literal["learn", "skip"],
            "learn",
            "Questions without an answer: `learn` to answer nothing, or `skip` them.",
        ),
        "null_threshold": Option(
            float,
            0.0,
            "Questions, if some have no answer: the model answers nothing where the logits of the empty answer exceed "
            "the best answer's by more than this.",
            {"ge": -1_000.0, "le": 1_000.0},
        ),
    }
    scoring_options = ("doc_stride", "n_best_answers", "max_answer_length", "null_threshold")
    evaluated_options = ("unanswerable",)
    answering_options = ("max_length", *scoring_options)
    integer_columns = ("start_position", "end_position")
    head = "AutoModelForQuestionAnswering"
    architectures = ("ForQuestionAnswering",)
    label_inputs = ("start_positions", "end_positions")
    metrics = (
        F1,
        Metric("eval_exact_match", "exact match", "percent", higher_is_better=True, best=100.0, decimals=2),
        LOSS,
    )
    inputs = ("question", "context")
    answer_fields = (("answer", "string"), ("score", "double"), ("start", "long"), ("end", "long"))
    example: Mapping[str, str] = {"question": "What is coming?", "context": Task.example["text"]}
    # With `top_k`, the answer is a list. The other numbers are tokens; `doc_stride` is the overlap of two windows.
    # `handle_impossible_answer` permits the empty answer. By default, the model's evaluation decides.
    parameter_rules: Mapping[str, Rule] = {
        "top_k": whole_number(1, 20),
        "max_answer_len": whole_number(1, 1_000),
        "max_seq_len": whole_number(8, 100_000),
        "doc_stride": whole_number(1, 100_000),
        "handle_impossible_answer": boolean,
    }
    pipeline = "question-answering"
    has_own_endpoint_code = True  # the toolkit's pipeline limits answers to 15 tokens

    def columns(self, names: ColumnNames) -> dict[str, str]:
        """Return the columns of the Hub's `squad`, which all data for this task must have."""
        return {**dict.fromkeys(SQUAD_COLUMNS, "string"), "answers": "object"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check that each answer is in the context at its position. Leading blanks of the context are kept."""
        name, context = checked_text(place, "id", values[0]), checked_text(place, "context", values[1])
        place = f"{place} ({short_text(name)})"
        answers = tuple(_checked_answer(place, context, text, start) for text, start in _pairs(place, values[3]))
        question = checked_text(place, "question", values[2], may_be_blank=True).lstrip()
        # Questions about one context are similar, so they must not be on both sides.
        return Row(number, (context, question), id=name, group=context, detail=answers)

    def batch_characters(self, row: Row) -> int:
        return len(row.texts[0])

    def recorded_options(self, options: Mapping[str, Any], remarks: Mapping[str, int]) -> dict[str, Any]:
        """Keep the threshold of the empty answer if some questions of the evaluation have no answer."""
        return {name: value for name, value in options.items() if name != "null_threshold" or LEARNT in remarks}

    def no_rows(self, options: Mapping[str, Any], for_scoring: bool) -> str:
        return "have no answer, and unanswerable is 'skip'"

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Cut questions and contexts into windows: the whole question and a part of the context.

        The windows equal the tokenizer's with `return_overflowing_tokens`, which Hugging Face's `run_qa.py`
        uses. Here they are cut from the tokens of the whole context, because only the whole context shows whether a
        window contains a complete answer. `run_qa.py` looks at each window separately: if an answer begins in the last
        word of a window, its end is placed in the padding after that word.
        """
        from training.job.tasks import answer_spans
        from training.job.tasks.squad import scoring_tables

        max_length, doc_stride, earlier_questions = options["max_length"], options["doc_stride"], 0
        skips = options.get("unanswerable") == "skip"

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            nonlocal earlier_questions
            unanswerable = sum(not row.detail for row in rows)
            rows = [row for row in rows if row.detail or not skips]
            made: list[answer_spans.Row] = []
            labels: list[tuple[int, int]] = []
            windows: list[answer_spans.Windows] = []
            offsets: list[answer_spans.Offsets] = []
            tokens_of_rows = answer_spans.tokenize(tokenizer, [(row.texts[1], row.texts[0]) for row in rows])
            for row, tokens in zip(rows, tokens_of_rows):
                _check_tokens(row, tokens)
                try:
                    cut, positions = answer_spans.cut(tokens, max_length, doc_stride)
                except ValueError as error:
                    hint = "increase max_length or reduce doc_stride"
                    raise BadData(f"question {short_text(row.id)}: {error}; {hint}") from error
                answer = answer_tokens(row.detail, tokens.offsets)
                made += cut
                windows.append(positions)
                offsets.append(tokens.offsets)
                for first, count in zip(positions.first_token.tolist(), positions.tokens.tolist()):
                    labels.append(_label(tokens, answer, first, count))
            columns = {
                **token_columns(
                    [ids for ids, _ in made], [types for _, types in made] if takes_types(tokenizer) else None
                ),
                "start_position": integers([start for start, _ in labels]),
                "end_position": integers([end for _, end in labels]),
            }
            cut_rows = sum(len(each.tokens) > 1 for each in windows)
            tables = scoring_tables(rows, offsets, windows, earlier_questions) if for_scoring and rows else None
            earlier_questions += len(rows)
            remarks = {LEFT_OUT if skips else LEARNT: unanswerable} if unanswerable else {}
            return Encoded(columns, cut_rows, tables, remarks=remarks)

        return encode

    def check_options(self, options: Any) -> None:
        if options.doc_stride >= options.max_length:
            raise ValueError(
                f"doc_stride {options.doc_stride} must be smaller than max_length {options.max_length}: otherwise the "
                "windows do not advance"
            )

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        model = super().load_model(pretrained, metadata)
        exclude_padding(model)
        return model

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        import numpy as np

        return {
            label: np.array([int(row[column]) + start for row, start in zip(batch.rows, batch.starts)])
            for label, column in zip(self.label_inputs, self.integer_columns)
        }

    def scorer(self, channel: "Channel") -> Scorer:
        from training.job.tasks.squad import AnswerScorer

        return AnswerScorer(channel)

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        return [_encoded_input(loaded, example) for example in examples]

    def outputs(self, loaded: LoadedModel, rows: Sequence[TokenRow]) -> list[Any]:
        """Return the start logits and the end logits of each row, without padding."""
        output = loaded.forward(rows)
        starts, ends = (logits.float().cpu().numpy() for logits in (output.start_logits, output.end_logits))
        width = starts.shape[1]
        spans = [slice(width - len(row.ids), width) if loaded.pads_left else slice(len(row.ids)) for row in rows]
        return [(start[span], end[span]) for start, end, span in zip(starts, ends, spans)]

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"answer", "score", "start", "end"}` for each question, as Transformers 4's pipeline.

        With `top_k`, it is a list of them. Start and end are character positions in the context. The answer is empty if
        no span is possible, or if the model finds none (`null_threshold`).
        """
        made, at = [], 0
        for each in encoded:
            starts, ends = zip(*outputs[at : at + len(each.rows)])
            made.append(_answer(loaded, each, starts, ends))
            at += len(each.rows)
        return made


LEARNT = "without an answer, learnt as no answer"
LEFT_OUT = "without an answer, left out (unanswerable: skip)"
MAX_WINDOWS = 10_000
"""Most windows of one context. More would need gigabytes before the model runs."""


def _encoded_input(loaded: LoadedModel, example: Example) -> EncodedInput:
    from training.job.tasks import answer_spans

    [tokens] = answer_spans.tokenize(loaded.tokenizer, [(example.text, str(example.pair))])
    if not tokens.offsets:
        raise BadInputs(f"{example.location}: the tokenizer finds no tokens in its context")
    recorded = answer_spans.options_of(loaded.options)
    # As requested, else as in training, but never more than the model accepts.
    trained = loaded.max_length if loaded.is_cut else None
    requested = int(example.options.get("max_seq_len", trained or recorded.max_length))
    length = min(requested, loaded.max_length or requested)
    stride = example.options.get("doc_stride", answer_spans.stride_of(recorded, length))
    step = tokens.room(length) - stride  # `cut` rejects a step of 0 or less
    if step > 0 and (count := math.ceil((len(tokens.offsets) - stride) / step)) > MAX_WINDOWS:
        raise BadInputs(
            f"{example.location}: with doc_stride {stride}, the context becomes {count:,} windows of {length} tokens. "
            f"At most {MAX_WINDOWS:,} are possible: lower doc_stride or raise max_seq_len"
        )
    try:
        rows, windows = answer_spans.cut(tokens, length, stride)
    except ValueError as error:
        raise BadInputs(f"{example.location}: {error}") from error
    made = tuple(TokenRow(ids, type_ids if loaded.takes_types else None) for ids, type_ids in rows)
    return EncodedInput(example, made, (tokens.offsets, windows, list(map(tokens.cls_in, windows.tokens.tolist()))))


def _answer(loaded: LoadedModel, encoded: EncodedInput, starts: Sequence[Any], ends: Sequence[Any]) -> Any:
    from training.job.tasks import answer_spans

    (offsets, windows, cls), request = encoded.detail, encoded.example.options
    own = [slice(at, at + tokens) for at, tokens in zip(windows.context_at, windows.tokens)]
    options = answer_spans.options_of(loaded.options).handling_impossible(request.get("handle_impossible_answer"))
    answers = answer_spans.answers_of(
        encoded.example.pair,
        offsets,
        windows,
        [line[part] for line, part in zip(starts, own)],
        [line[part] for line, part in zip(ends, own)],
        options._replace(max_answer_length=request.get("max_answer_len", options.max_answer_length)),
        request.get("top_k", 1),
        [(start[at], end[at]) for at, start, end in zip(cls, starts, ends)],
    )
    if "top_k" in request:
        return answers
    return answers[0] if answers else answer_spans.no_answer()


class Answer(NamedTuple):
    """An answer that occurs in its context."""

    text: str
    """The answer as spelled in the data."""
    start: int
    """Position of its first character in the context, in code points from 0."""


def _pairs(place: object, answers: Any) -> list[tuple[Any, Any]]:
    """Return (text, start) of each answer, from an object of two lists or a list of objects."""
    answers = from_json(answers)
    if isinstance(answers, list) and all(isinstance(each, dict) for each in answers):
        answers = {key: [each.get(key) for each in answers] for key in ("text", "answer_start")}
    texts, starts = (answers.get("text"), answers.get("answer_start")) if isinstance(answers, dict) else (None, None)
    if not isinstance(texts, list) or not isinstance(starts, list):
        raise BadData(f"{place}: answers must contain two lists, 'text' and 'answer_start', not {short_text(answers)}")
    if len(texts) != len(starts):
        raise BadData(f"{place}: answers has {len(texts)} texts, but {len(starts)} values of answer_start")
    return list(zip(texts, starts))


def _checked_answer(place: object, context: str, text: Any, start: Any) -> Answer:
    text = checked_text(place, "answers.text", text)
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise BadData(f"{place}: answer_start must be a whole number of at least 0, not {short_text(start)}")
    actual = context[start : start + len(text)]
    if actual != text:
        problem = f"which has {short_text(actual)}" if actual else f"past its end ({len(context)} characters)"
        position = context.find(text)
        hint = f"; it is at {position}" if position >= 0 else ""
        raise BadData(
            f"{place}: the answer {short_text(text)} is not at answer_start {short_text(start)} of its context, "
            f"{problem}{hint}"
        )
    return Answer(text, start)


def _check_tokens(row: Row, tokens: "Tokens") -> None:
    if not tokens.offsets:
        raise BadData(f"question {short_text(row.id)}: its context has no tokens")
    if tokens.context_at <= tokens.cls < tokens.context_at + len(tokens.offsets):
        raise BadData(
            f"question {short_text(row.id)}: its text has no tokens and the tokenizer adds no CLS token, "
            "so no token can mark an answer outside a window"
        )


def answer_tokens(answers: Sequence[Answer], offsets: "Offsets") -> tuple[int, int] | None:
    """Return the first and last of the context's tokens that overlap the first answer, or None.

    Blanks around the answer are ignored. Otherwise a tokenizer that joins a blank to the following word, such as
    SentencePiece, would include that word.
    """
    if not answers:
        return None
    text, at = answers[0]
    start, end = at + len(text) - len(text.lstrip()), at + len(text.rstrip())
    overlapping = [number for number, (first, last) in enumerate(offsets) if first < end and last > start]
    return (overlapping[0], overlapping[-1]) if overlapping else None


def _label(tokens: "Tokens", answer: tuple[int, int] | None, first: int, count: int) -> tuple[int, int]:
    """Return the answer's first and last token in a window, or the CLS token twice if it is not in the window.

    The window has `count` tokens of the context from number `first`.
    """
    if answer is not None and first <= answer[0] and answer[1] < first + count:
        return tokens.context_at + answer[0] - first, tokens.context_at + answer[1] - first
    return (tokens.cls_in(count),) * 2


def exclude_padding(model: Any) -> None:
    """Give padding no share in the model's loss, a softmax over all positions of a row.

    The loss would depend on how far a batch is padded.
    """
    masks: list[Tensor | None] = [None]

    def keep_mask(_: Any, args: Any, inputs: dict[str, Any]) -> None:
        masks[0] = inputs.get("attention_mask")

    def exclude(_: Any, args: Any, logits: "Tensor") -> "Tensor":
        return logits if masks[0] is None else logits.masked_fill(masks[0][..., None] == 0, -1e4)

    model.register_forward_pre_hook(keep_mask, with_kwargs=True)
    for name in ("qa_outputs", "qa_classifier", "classifier"):
        if hasattr(model, name):
            getattr(model, name).register_forward_hook(exclude)
