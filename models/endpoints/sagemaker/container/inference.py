"""Answer questions in SageMaker's inference container.

Hugging Face's inference toolkit imports this file as `code/inference.py`. It calls `model_fn` once and `predict_fn` for
each request. The container has torch and Transformers. `answer_spans.py` is packed next to this file, so that questions
are answered as in the training's evaluation.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

FIELDS = ("question", "context")
PARAMETERS = {"max_answer_len": 1_000, "top_k": 20}
"""Numbers that a request may have as parameters, each with its largest value."""
IMPOSSIBLE = "handle_impossible_answer"
"""Parameter, true or false, that permits or forbids the empty answer."""


class Reader:
    """A model that answers questions."""

    def __init__(self, folder: Path) -> None:
        model = AutoModelForQuestionAnswering.from_pretrained(str(folder))
        self._model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self._spans = _load_spans()
        options = self._spans.read_options(folder)
        self._options = options._replace(max_length=min(self._tokenizer.model_max_length, options.max_length))

    def answer(self, question: str, context: str, parameters: dict[str, int]) -> Any:
        """Return the answer, or a list of answers with `top_k`. Raises ValueError for a question that is too long."""
        longest = parameters.get("max_answer_len", self._options.max_answer_length)
        options = self._options._replace(max_answer_length=longest)
        options = options.handling_impossible(parameters.get(IMPOSSIBLE))
        top_k = parameters.get("top_k", 1)
        answers = self._spans.answer_question(self._tokenizer, self._forward, question, context, options, top_k)
        if "top_k" in parameters:
            return answers
        return answers[0] if answers else self._spans.no_answer()

    def _forward(self, batch: dict[str, Any]) -> tuple[Any, Any]:
        with torch.inference_mode():
            output = self._model(
                **{name: torch.from_numpy(array).to(self._model.device) for name, array in batch.items()}
            )
        return output.start_logits.float().cpu().numpy(), output.end_logits.float().cpu().numpy()


def model_fn(model_dir: str) -> Reader:
    """Load the model of a folder, onto the GPU if there is one."""
    return Reader(Path(model_dir))


def predict_fn(data: Any, reader: Reader) -> Any:
    """Return the answer to `{"inputs": {"question": ..., "context": ...}}`, or the answers to a list of them.

    Raises ValueError for any other input; the toolkit returns it as status 400.
    """
    inputs = data.get("inputs", data) if isinstance(data, dict) else data
    parameters = data.get("parameters") if isinstance(data, dict) else None
    parameters = {} if parameters is None else parameters
    _check_parameters(parameters)
    if isinstance(inputs, list):
        return [_answer(reader, each, parameters) for each in inputs]
    return _answer(reader, inputs, parameters)


def _check_parameters(parameters: Any) -> None:
    if not isinstance(parameters, dict) or parameters.keys() - {*PARAMETERS, IMPOSSIBLE}:
        names = f"{', '.join(PARAMETERS)} and {IMPOSSIBLE}"
        raise ValueError(f"parameters is {parameters!r:.200}: it can only have {names}")
    if not isinstance(parameters.get(IMPOSSIBLE, True), bool):
        raise ValueError(f"{IMPOSSIBLE} is {parameters[IMPOSSIBLE]!r:.200}: it must be true or false")
    for name, value in ((name, parameters[name]) for name in PARAMETERS if name in parameters):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= PARAMETERS[name]:
            raise ValueError(f"{name} is {value!r:.200}: it must be a whole number from 1 to {PARAMETERS[name]}")


def _answer(reader: Reader, value: Any, parameters: dict[str, int]) -> Any:
    for name in FIELDS:
        if not isinstance(value, dict) or not isinstance(value.get(name), str) or not value[name].strip():
            raise ValueError(f"inputs must have question and context, both non-empty texts: got {value!r:.200}")
    return reader.answer(value["question"], value["context"], parameters)


def _load_spans() -> Any:
    path = Path(__file__).with_name("answer_spans.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
