"""`python_function` of a model that trainfare logged. This file is stored with the model.

    text-classification    a text, or text and text_pair    -> label, score
    question-answering     question and context             -> answer, score, start, end
    text-generation        a prompt                         -> generated_text

Questions are answered as in the training's evaluation, by `trainfare_answer_spans.py`, which is stored next to this
file.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BATCH = 16
"""Texts in one batch."""
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
    task = str(config["task"])
    if task == "question-answering":
        from transformers import AutoModelForQuestionAnswering

        model = AutoModelForQuestionAnswering.from_pretrained(str(folder)).to(device).eval()
        return Answerer(task, Questions(model, tokenizer, limit, config))
    from transformers import pipeline

    return Answerer(task, Piped(pipeline(task, model=str(folder), tokenizer=tokenizer, device=device), limit))


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

    def __init__(self, pipeline: Any, limit: int) -> None:
        self._pipeline, self._limit = pipeline, limit

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        if self._pipeline.task == "text-generation":
            # One at a time: many such models have no padding token. Prompts that are too long lose their beginning.
            generated = (self._pipeline(row["text"], handle_long_generation="hole", **params) for row in rows)
            return [{"generated_text": str(answer["generated_text"])} for answers in generated for answer in answers]
        texts: list[Any] = [row if len(row) > 1 else row["text"] for row in rows]
        answers = self._pipeline(texts, batch_size=self._batch, truncation=True, max_length=self._limit)
        return [{"label": str(each["label"]), "score": float(each["score"])} for each in answers]

    @property
    def _batch(self) -> int:
        return BATCH if self._pipeline.tokenizer.pad_token is not None else 1


class Questions:
    """Finds the answers to questions in their contexts."""

    def __init__(self, model: Any, tokenizer: Any, limit: int, config: dict[str, Any]) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._spans = _load_spans()
        options = self._spans.options_of(config)
        self._options = options._replace(max_length=min(limit, options.max_length))

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._answer(row["question"], row["context"]) for row in rows]

    def _answer(self, question: str, context: str) -> dict[str, Any]:
        question = self._shortened(question)
        answers = self._spans.answer_question(self._tokenizer, self._forward, question, context, self._options)
        return dict(answers[0]) if answers else dict(self._spans.no_answer())

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

        with torch.inference_mode():
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
