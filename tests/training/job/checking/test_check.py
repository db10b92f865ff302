"""Checks of tiny trainings: equal settings, and planted faults that are found within five steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers

from judging.equivalence import Finding, judge
from tests.support.job.arguments import job_argv
from tests.support.job.job_process import TORCHRUN, WATCHED, Job
from tests.support.staging.fast_tokenizers import KINDS
from training.job.checking import TABLE
from training.job.checking.check import Check
from training.job.checking.plain import keep_checked_layers
from training.job.compilation import blockwise
from training.job.compilation.compilers import Inductor
from training.job.data import IGNORED_LABEL, padding
from training.job.data.padding import Collator
from training.job.loop.job_trainer import JobTrainer
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings
from training.job.tasks.chat import SAMPLES_FILE
from training.job.tasks.token_classification import SENTENCES, WINDOWS
from training.job.training_run import _load_model

STEPS = 5
WIDTH = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
SMALL: dict[str, dict[str, int]] = {
    "albert": {**WIDTH, "embedding_size": 8}, "bert": WIDTH, "distilbert": {"dim": 16, "n_heads": 2, "hidden_dim": 32},
    "gpt2": {"n_embd": 16, "n_head": 2}, "llama": {**WIDTH, "num_key_value_heads": 2},
    "t5": {"d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 32, "num_decoder_layers": 5},
}  # fmt: skip
TAGGING = {"task": "token-classification"}
CONVERSATION = {"task": "chat", "attention": "eager"}
"""Tasks whose rows differ in their labels, and whose rows hold several texts."""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=32, max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    KINDS["wordpiece"]().save_pretrained(folder)
    return folder


def write(folder: Path, task: str, columns: dict[str, Sequence[Sequence[int]]], **metadata: Any) -> None:
    table = pa.table({name: pa.array(lists, pa.list_(pa.int32())) for name, lists in columns.items()})
    known = {"task": task, "label_names": ["a", "b"], "rows": table.num_rows, "max_length": 12}
    known |= {"pad_token_id": 0, "pad_token_type_id": 0, "padding_side": "right"}
    pq.write_table(table, folder / "data.parquet", store_schema=False)
    (folder / "channel.json").write_text(json.dumps({**known, **metadata}))


def write_tagged(folder: Path) -> None:
    ids = [[1, *((at * 7 + i) % 30 + 15 for i in range(2 + at % 10))] for at in range(50)]
    # The first token has no tag, and neither have a third of the others.
    tags = [[IGNORED_LABEL, *(token % 2 if token % 3 else IGNORED_LABEL for token in row[1:])] for row in ids]
    write(folder, TAGGING["task"], {"input_ids": ids, "tags": tags})
    sentences = {"row": [*range(50)], "words": [["word"]] * 50, "tags": [[0]] * 50}
    pq.write_table(pa.table(sentences), folder / SENTENCES)
    pq.write_table(pa.table({"sentence": [*range(50)], "words": [[0]] * 50}), folder / WINDOWS)


def write_packed(folder: Path) -> None:
    """Write rows of two texts, each with an answer from its third token on."""
    lengths = [(3 + at % 3, 4 + at % 4) for at in range(50)]
    ids = [[(at * 7 + i) % 30 + 15 for i in range(sum(pair))] for at, pair in enumerate(lengths)]
    answers = [[2, first, first + 2, first + second] for first, second in lengths]
    columns = {"input_ids": ids, "answers": answers, "segments": lengths}
    write(folder, CONVERSATION["task"], columns, label_names=[], packing=True, stop_token=1)
    pq.write_table(pa.table({name: [] for name in ("row", "prompt", "answer", "ids")}), folder / SAMPLES_FILE)


NewCheck = Callable[..., list[Finding]]


@pytest.fixture
def check(tmp_path: Path, tiny_model: Path, decoder: Path) -> NewCheck:
    """Return a function that checks a training with these arguments, and returns the findings."""

    def run(**arguments: Any) -> list[Finding]:
        task = arguments.get("task")
        job = Job(tmp_path / "job", decoder if task == CONVERSATION["task"] else tiny_model)
        writer = {TAGGING["task"]: write_tagged, CONVERSATION["task"]: write_packed}.get(task or "")
        for name in ("train", "validation"):
            if writer:
                writer(job.folder / name)
        argv = job_argv(check_steps=STEPS, max_steps=100, learning_rate=1e-3, **arguments)
        settings = resolve_settings(argv, job.environment, Events(enabled=False))
        return judge(Check(settings, _load_model, Events(enabled=False)).table())

    return run


EQUAL = {
    "accumulated": ({**TAGGING, "gradient_accumulation_steps": 4}, ["gradient_accumulation_steps"]),
    "padded": ({**TAGGING, "padding": "max_length", "attention": "sdpa"}, ["padding", "attention"]),
    "without padding": ({"padding": "none", "dataloader_workers": 1}, ["padding", "dataloader_workers"]),
    "sharded": ({"sharding": "fsdp2", "weight_decay": 0.1}, ["sharding"]),
    "adapted": ({"adapter_method": "lora", "adapter_rank": 2}, ["optimizer"]),
    "packed": (CONVERSATION, ["packing"]),
    "bf16": ({"precision": "bf16", "max_grad_norm": 0}, ["precision"]),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_settings_show_no_difference(name: str, check: NewCheck) -> None:
    arguments, settings = EQUAL[name]
    findings = {each.name: each for each in check(**arguments)}
    assert {"trainer", *settings} <= set(findings)
    assert {each.answer for each in findings.values()} <= {"no difference", "as stock torch"}
    assert (name == "bf16") == ("as stock torch" in {each.answer for each in findings.values()})


# Faults. Each function plants one, as it once was in a library or as it is easily made.


def average_means_of_unequal_batches(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(JobTrainer, "get_batch_samples")


def changed_labels(change: Callable[[Any], Any], *, static_only: bool = False) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        collate = Collator.__call__

        def faulty(self: Collator, rows: Any) -> Any:
            batch = collate(self, rows)
            if self._batch_size and (self._padding.is_static or not static_only):  # a batch of Trainer's
                batch["labels"] = change(batch)
            return batch

        patch.setattr(Collator, "__call__", faulty)

    return plant


def tag_padding(batch: Any) -> torch.Tensor:
    return batch["labels"].masked_fill(batch["attention_mask"] == 0, 0)


def shift_again(batch: Any) -> torch.Tensor:
    return torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=IGNORED_LABEL)


def mask_all(batch: Any) -> torch.Tensor:
    return torch.full_like(batch["labels"], IGNORED_LABEL)


def keep_dropout(patch: pytest.MonkeyPatch) -> None:
    attend = blockwise.attend

    def faulty(*args: Any, **kwargs: Any) -> Any:
        return torch.nn.functional.dropout(attend(*args, **kwargs)[0], 0.1), None

    patch.setattr(blockwise, "attend", faulty)


def forget_mask(patch: pytest.MonkeyPatch) -> None:
    attend = blockwise.attend

    def faulty(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any) -> Any:
        return attend(module, query, key, value, None, **kwargs)

    patch.setattr(blockwise, "attend", faulty)


def continue_positions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(padding, "_positions", lambda rows, spans, shape: torch.arange(shape[1]).repeat(shape[0], 1).numpy())


def freeze_a_layer(patch: pytest.MonkeyPatch) -> None:
    def faulty(self: Inductor, model: Any, dynamic: bool) -> str:
        model.bert.encoder.layer[0].requires_grad_(False)
        return ""

    patch.setattr(Inductor, "prepare", faulty)


def decay_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobTrainer, "get_decay_parameter_names", lambda self, model: dict(model.named_parameters()))


def keep_gradients(patch: pytest.MonkeyPatch) -> None:
    create = JobTrainer.create_optimizer

    def faulty(self: JobTrainer, *args: Any) -> Any:
        optimizer = create(self, *args)
        self.model.zero_grad = lambda: None
        return optimizer

    patch.setattr(JobTrainer, "create_optimizer", faulty)


def scale_rate_twice(patch: pytest.MonkeyPatch) -> None:
    create = JobTrainer.create_optimizer

    def faulty(self: JobTrainer, *args: Any) -> Any:
        self.args.learning_rate *= self.args.gradient_accumulation_steps
        return create(self, *args)

    patch.setattr(JobTrainer, "create_optimizer", faulty)


LAYERS = ("bert.encoder.layer.0", "bert.encoder.layer.1")
FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any], str, int, str]] = {
    "means of unequal batches": (
        average_means_of_unequal_batches, {**TAGGING, "gradient_accumulation_steps": 2},
        "gradient_accumulation_steps", 1, "loss",
    ),
    "loss over padding": (
        changed_labels(tag_padding, static_only=True), {**TAGGING, "padding": "max_length"}, "padding", 1,
        "bert.embeddings.word_embeddings",
    ),
    "labels shifted twice": (changed_labels(shift_again), CONVERSATION, "trainer", 1, "model.layers.0"),
    "dropout that ignores its rate": (keep_dropout, {"attention": "blockwise"}, "attention", 1, LAYERS[1]),
    "a mask that is forgotten": (forget_mask, {"attention": "blockwise"}, "attention", 1, LAYERS[0]),
    "positions that continue": (continue_positions, CONVERSATION, "packing", 1, "model.layers.1"),
    "a frozen layer": (
        freeze_a_layer, {"compiler": "inductor"}, "compiler", 1, LAYERS[0],
    ),
    "decay of everything": (
        decay_everything, {"weight_decay": 0.1}, "trainer", 1,
        "weight_decay of bert.embeddings.LayerNorm.bias is 0.1 instead of 0.0",
    ),
    "gradients that stay": (keep_gradients, {}, "trainer", 2, "gradient norm"),
    "all labels masked": (changed_labels(mask_all), TAGGING, "trainer", 1, "loss"),
    "a rate scaled twice": (
        scale_rate_twice, {"gradient_accumulation_steps": 2}, "gradient_accumulation_steps", 1,
        "lr of bert.embeddings.LayerNorm.bias is 0.0002 instead of 0.0001",
    ),
}  # fmt: skip
"""Fault -> the function that plants it, the arguments of a check, and the setting, step and quantity that it finds."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, check: NewCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, arguments, setting, step, quantity = FAULTS[name]
    plant(monkeypatch)
    [first, *_] = [each for each in check(**arguments) if each.answer == "different"]
    assert (first.name, first.step, first.quantity) == (setting, step, quantity)


@pytest.mark.parametrize("fault", [None, "SAME_ROWS"])
def test_processes_that_train_on_the_same_rows_are_found(job: Job, fault: str | None) -> None:
    if fault:
        job.environment[fault] = "1"
    ended = job.run([*TORCHRUN, WATCHED], check_steps=STEPS, max_steps=100, batch_size=4)
    findings = {each.name: each for each in judge(ended.result["tables"][TABLE])}
    assert findings["trainer"].value == "2 processes"
    assert findings["trainer"].answer == ("different" if fault else "no difference")
    assert not fault or findings["trainer"].step == 1
    assert [event["event"] for event in ended.events() if event["event"] != "note"] == ["start", "result"]


@pytest.mark.parametrize("model_type", ["albert", "bert", "distilbert", "gpt2", "llama", "t5"])
def test_a_deep_model_keeps_its_first_middle_and_last_layers(model_type: str) -> None:
    sizes = {"distilbert": {"n_layers": 5}, "gpt2": {"n_layer": 5}, "t5": {"num_layers": 5}}
    config = transformers.AutoConfig.for_model(
        model_type, vocab_size=20, **sizes.get(model_type, {"num_hidden_layers": 5}), **SMALL.get(model_type, {})
    )
    model = transformers.AutoModel.from_config(config)
    before = [each for each in model.modules() if isinstance(each, torch.nn.ModuleList) and len(each) == 5]
    layers = [list(each) for each in before]
    assert keep_checked_layers(model)
    model.config.use_cache = False  # as in a check
    assert [list(each) for each in before] == [[each[0], each[2], each[4]] for each in layers]
    ids = torch.arange(5)[None]
    more = {"decoder_input_ids": ids} if model_type == "t5" else {}
    output = model(input_ids=ids, **more, output_hidden_states=True)
    states = output.decoder_hidden_states if model_type == "t5" else output.hidden_states
    assert len(states) == 4
    assert not keep_checked_layers(model)
