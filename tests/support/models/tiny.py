"""Tiny models with random weights, as a training job leaves them: a `model.tar.gz` that its run names."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from mlflow import MlflowClient

from models.logged.log_model import log_model
from tests.support.models.group_models import store_of
from tests.support.tracking.planned_jobs import planned
from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import ModelPlan
from training.services.local.service import LocalService

LABELS = ("calm", "storm")


@cache
def tiny_folder() -> Path:
    """Return the folder of a classifier with two classes, about 20 KB: configuration, weights and tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = Path(mkdtemp(prefix="tiny-model-"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "winter", "is", "coming", "it", "will", "be", "dark"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(words), **size, id2label=dict(enumerate(LABELS)))
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
    log_model(store_of(client), LocalService(tmp_path), job, run_id, tmp_path)
