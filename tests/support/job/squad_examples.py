"""Questions, models and jobs for tests of question answering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage

CONTEXT = "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third Super Bowl title in Santa Clara."
ANSWERS = {
    "Who won?": "The Denver Broncos",
    "Who lost?": "Carolina Panthers",
    "Where?": "Santa Clara",
    "What was the score?": "24–10",
    "Which title?": "third",
}


def squad_file(folder: Path, contexts: int) -> Path:
    """Write a file with several contexts and the same five questions about each."""
    paragraphs = []
    for number in range(contexts):
        context = f" {'Nothing happened here. ' * number}{CONTEXT}"
        qas = [
            {"id": f"{number}-{at}", "question": f" {question}", "answers": [answer(context, text)]}
            for at, (question, text) in enumerate(ANSWERS.items())
        ]
        paragraphs.append({"context": context, "qas": qas})
    path = folder / "squad.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return path


def answer(context: str, text: str) -> dict[str, Any]:
    return {"text": text, "answer_start": context.index(text)}


def model_folder(folder: Path, tokenizer: Any) -> Path:
    """Write a random two-layer BERT with the tokenizer."""
    from transformers import BertConfig, BertForQuestionAnswering, set_seed

    set_seed(1)
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    layers = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertForQuestionAnswering(BertConfig(**size, **layers, type_vocab_size=3)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def staged(folder: Path, train: Path, model: Path, validation: Path | None = None, **fields: Any) -> dict[str, Path]:
    """Stage files and return the channels' folders. Without `validation`, `train` is used for both channels."""
    rows = {name: fields.pop(name) for name in ("train_rows", "validation_rows") if name in fields}
    data = Data(train=str(train), validation=str(validation or train), **rows)
    request = StagingRequest(task="question-answering", data=data, model=str(model), **fields)
    channels = stage(request, folder / "home").channels
    return {name: Path(unquote(urlparse(uri).path)) for name, uri in channels.items()}
