"""`python_function` of a model that trainfare logged. This file is stored with the model.

    text-classification    a text, or text and text_pair    -> label, score
    question-answering     question and context             -> answer, score, start, end
    text-generation        a prompt                         -> generated_text

Rows are answered as in the training's evaluation: in the same precision and, if the rows are the evaluation's, in the
same batches. Questions are answered by `trainfare_answer_spans.py`, which is stored next to this file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BATCH = 16
"""Rows in one batch, if the batch size of the evaluation is unknown."""
LARGEST_LIMIT = 100_000
"""Limits from this length on mean "no limit": such a tokenizer reports 10 to the power of 30."""
SPANS = "trainfare_answer_spans.py"
COLUMNS = {
    "text-classification": ("text", "text_pair"),
    "question-answering": ("question", "context"),
    "text-generation": ("text",),
}
"""Columns of an input row, by task."""


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> Answerer:
    """Load the model for MLflow, which calls this function. `path` is the MLflow model's folder."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    config, folder = dict(model_config or {}), Path(path) / "model"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokenizer.model_max_length = limit = _limit(tokenizer, AutoConfig.from_pretrained(str(folder)))
    task, evaluation = str(config["task"]), Evaluation(config.get("evaluation") or {}, device)
    if task == "question-answering":
        from transformers import AutoModelForQuestionAnswering

        model = AutoModelForQuestionAnswering.from_pretrained(str(folder), **evaluation.attention).to(device).eval()
        return Answerer(task, Questions(model, tokenizer, limit, config, evaluation))
    from transformers import pipeline

    piped = pipeline(task, model=str(folder), tokenizer=tokenizer, device=device, model_kwargs=evaluation.attention)
    return Answerer(task, Piped(piped, limit, evaluation))


class Evaluation:
    """Settings of the training's evaluation, as far as the model's configuration records them."""

    def __init__(self, record: Mapping[str, Any], device: str) -> None:
        attention, precision = record.get("attention"), record.get("precision")
        # A CPU has no flash attention.
        is_possible = attention is not None and not (device == "cpu" and "flash" in attention)
        self.attention = {"attn_implementation": attention} if is_possible else {}
        self.batch_size = int(record.get("batch_size") or BATCH)
        self.max_length: int | None = record.get("max_length")
        self.pads_to_max_length = bool(record.get("pads_to_max_length"))
        self._device = device
        # A CPU has no fp16: it computes in fp32 then.
        self._dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(str(precision))
        if precision == "fp16" and device == "cpu":
            self._dtype = None

    def autocast(self) -> AbstractContextManager[None]:
        """Return a context in which matrix products are computed in the evaluation's precision."""
        import torch

        dtype = getattr(torch, self._dtype) if self._dtype else None
        context: AbstractContextManager[None] = torch.autocast(self._device, dtype=dtype, enabled=dtype is not None)
        return context


class Answerer:
    """Converts a request to rows, and returns a table with one row for each of them."""

    def __init__(self, task: str, answers: Any) -> None:
        self._task, self._answers = task, answers

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the answers. Raises ValueError for invalid input; MLflow's server turns it into status 400."""
        return pd.DataFrame(self._answers(rows_of(model_input, COLUMNS[self._task]), dict(params or {})))


def rows_of(inputs: Any, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows of a table, a text, a mapping, or a list or array of texts or mappings. Raises ValueError."""
    if isinstance(inputs, pd.DataFrame):
        inputs = inputs.to_dict(orient="records")
    elif isinstance(inputs, np.ndarray):
        if inputs.ndim > 1 and inputs.size != len(inputs):
            raise ValueError(f"a row must be a text or have columns {', '.join(columns)}, not a list of values")
        inputs = inputs.reshape(-1).tolist()
    elif isinstance(inputs, dict):
        values_by_row = zip(*map(_listed, inputs.values()), strict=True)
        inputs = [dict(zip(inputs, row, strict=True)) for row in values_by_row]
    return [_row(each, columns) for each in _listed(inputs)]


def _listed(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return [values.item()] if values.ndim == 0 else values.tolist()
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _row(entry: Any, columns: tuple[str, ...]) -> dict[str, str]:
    if isinstance(entry, str):
        entry = {columns[0]: entry}
    if not isinstance(entry, dict):
        raise ValueError(f"a row must be a text or have columns {', '.join(columns)}, not {type(entry).__name__}")
    # If a table has a single column, its name does not matter: it is 0 if the column has no name.
    row = dict(entry) if set(entry) & set(columns) or len(entry) != 1 else {columns[0]: next(iter(entry.values()))}
    row = {str(name): value for name, value in row.items() if value is not None}
    wrong = [name for name in row if name not in columns]
    needed = columns if "context" in columns else columns[:1]
    missing = [name for name in needed if name not in row]
    if wrong or missing:
        raise ValueError(f"a row has columns {', '.join(row)}: it must have {', '.join(columns)}")
    if not all(isinstance(value, str) for value in row.values()):
        raise ValueError(f"{', '.join(columns)} must be texts")
    return row


class Piped:
    """Answers with a Transformers pipeline."""

    def __init__(self, pipeline: Any, limit: int, evaluation: Evaluation) -> None:
        self._pipeline, self._evaluation = pipeline, evaluation
        self._limit = min(limit, evaluation.max_length or limit)

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        with self._evaluation.autocast():
            return self._answers(rows, params)

    def _answers(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        if self._pipeline.task == "text-generation":
            # One at a time: many such models have no padding token. Prompts that are too long lose their beginning.
            generated = (self._pipeline(row["text"], handle_long_generation="hole", **params) for row in rows)
            return [{"generated_text": str(answer["generated_text"])} for answers in generated for answer in answers]
        order = sorted(range(len(rows)), key=[self._tokens(row) for row in rows].__getitem__)
        texts: list[Any] = [rows[at] if len(rows[at]) > 1 else rows[at]["text"] for at in order]
        padding = {"padding": "max_length"} if self._evaluation.pads_to_max_length else {}
        answers = self._pipeline(texts, batch_size=self._batch, truncation=True, max_length=self._limit, **padding)
        made = {
            at: {"label": str(each["label"]), "score": float(each["score"])}
            for at, each in zip(order, answers, strict=True)
        }
        return [made[at] for at in range(len(rows))]

    def _tokens(self, row: dict[str, str]) -> int:
        texts = (row["text"], row.get("text_pair"))
        return len(self._pipeline.tokenizer(*texts, truncation=True, max_length=self._limit)["input_ids"])

    @property
    def _batch(self) -> int:
        return self._evaluation.batch_size if self._pipeline.tokenizer.pad_token is not None else 1


class Questions:
    """Finds the answers to questions in their contexts."""

    def __init__(self, model: Any, tokenizer: Any, limit: int, config: dict[str, Any], evaluation: Evaluation) -> None:
        self._model, self._tokenizer, self._evaluation = model, tokenizer, evaluation
        self._spans = _load_spans()
        options = self._spans.options_of(config)
        self._options = options._replace(max_length=min(limit, options.max_length))

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        answers = self._spans.answer_questions(
            self._tokenizer,
            self._forward,
            [(self._shortened(row["question"]), row["context"]) for row in rows],
            self._options,
            batch_size=self._evaluation.batch_size,
            row_tokens=self._options.max_length if self._evaluation.pads_to_max_length else 0,
        )
        return [dict(each[0]) if each else dict(self._spans.no_answer()) for each in answers]

    def _shortened(self, question: str) -> str:
        """Return the question, truncated to half a window if it leaves less room for the context than in training."""
        length = self._options.max_length
        longest, available = length // 2, length - self._tokenizer.num_special_tokens_to_add(pair=True)
        ids = self._ids(question)
        if len(ids) < longest or available - len(ids) > self._spans.stride_of(self._options, length):
            return question
        while True:
            shortened: str = self._tokenizer.decode(ids[:longest])
            # The decoded text may have more tokens than were kept.
            room = available - len(self._ids(shortened))
            if room > 0 or longest <= 0:
                return shortened
            longest += room - 1

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _forward(self, batch: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        import torch

        with torch.inference_mode(), self._evaluation.autocast():
            output = self._model(
                **{name: torch.from_numpy(array).to(self._model.device) for name, array in batch.items()}
            )
        return output.start_logits.float().cpu().numpy(), output.end_logits.float().cpu().numpy()


def _load_spans() -> Any:
    """Return the module that is stored next to this file.

    It is loaded by path, because a different model in this process may have a module with the same name.
    """
    path = Path(__file__).with_name(SPANS)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _limit(tokenizer: Any, config: Any) -> int:
    """Return the longest input that the model accepts, in tokens."""
    positions = getattr(config, "max_position_embeddings", None)
    # XLNet reports -1, which means no limit.
    limits = [int(each) for each in (tokenizer.model_max_length, positions) if each and 0 < each < LARGEST_LIMIT]
    limit = min(limits, default=512)
    # RoBERTa's positions start after the padding token's position.
    is_shifted = limit == positions and "roberta" in str(config.model_type)
    return limit - 2 if is_shifted else limit
