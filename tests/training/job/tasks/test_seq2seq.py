"""Sequence to sequence: losses equal Seq2SeqTrainer's, and scores use all references of a source."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
import torch
import transformers

from models.inference.predictor import load_predictor
from tests.support.job.arguments import job_argv
from tests.support.job.job_process import TORCHRUN, Job
from tests.support.staging.fast_tokenizers import KINDS, byte_level, without_special_tokens
from training.contract.errors import InputError
from training.job.data import IGNORED_LABEL, MAX_TARGET_LENGTH, TARGET_IDS
from training.job.data.channels import ChannelMetadata, read_channel, read_texts
from training.job.data.padding import WORK, Collator, Padding, Work
from training.job.loop.job_trainer import JobTrainer, trainer_arguments
from training.job.measuring import meter
from training.job.processes.reporting import Events
from training.job.settings.job_settings import resolve_settings
from training.job.tasks import TASKS, find_task
from training.job.tasks.seq2seq import TARGETS, rouge_l, text_scores, words
from training.job.tasks.task import Row
from training.job.weights.checkpoints import NO_PROGRESS, CheckpointKeeper
from training.staging.sources.request import Columns, Data, StagingRequest
from training.staging.stage import stage

SEQ2SEQ = TASKS["seq2seq"]
METADATA = ChannelMetadata("seq2seq", (), 12, 1, 0, 0, "right", {MAX_TARGET_LENGTH: 5})
NAMES = ("Denver", "Carolina", "Lourdes", "Santa Clara", "Paris")
ROWS = [
    {"mr": f"name[{name}], year[{1990 + at}]", "ref": text}
    for at, name in enumerate(NAMES * 4)
    for text in (f"{name} won in {1990 + at}.", f"In {1990 + at}, the winner was {name}.")
]
OPTIONS: Mapping[str, Any] = {"max_target_length": 40, "max_new_tokens": 8, "source_prefix": "say: "}


def bart(size: int) -> Any:
    sides = [f"{side}_{name}" for side in ("encoder", "decoder") for name in ("layers", "attention_heads", "ffn_dim")]
    layers = dict(zip(sides, (1, 2, 32) * 2, strict=True))
    config = transformers.BartConfig(vocab_size=size, d_model=16, max_position_embeddings=64, dropout=0.0, **layers)
    return transformers.BartForConditionalGeneration(config)


def t5(size: int) -> Any:
    shape = {
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_decoder_layers": 1,
        "num_heads": 2,
        "dropout_rate": 0.0,
    }
    ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=size, **shape, **ids))


FAMILIES = {"bart": bart, "t5": t5}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small models with random weights and a tokenizer on bytes."""
    folders = {}
    for name, make in FAMILIES.items():
        transformers.set_seed(2)
        folders[name] = tmp_path_factory.mktemp(name)
        make(len(byte_level())).save_pretrained(folders[name])
        byte_level().save_pretrained(folders[name])
    return folders


def staged(folder: Path, model: Path, rows: list[dict[str, Any]], **fields: Any) -> Job:
    """Return a job on these rows, 10 of whose 20 sources are validation rows."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = Columns(text="mr", target="ref")
    data = Data(train=str(folder / "rows.jsonl"), columns=columns, validation_share=0.5)
    request = StagingRequest(task="seq2seq", data=data, model=str(model), **{"max_length": 48, **OPTIONS, **fields})
    channels = stage(request, folder / "home").channels
    job = Job(folder / "job", model)
    job.environment |= {f"SM_CHANNEL_{name.upper()}": unquote(urlparse(uri).path) for name, uri in channels.items()}
    return job


@pytest.mark.parametrize("family", FAMILIES)
def test_the_losses_are_those_of_seq2seq_trainer(family: str, models: dict[str, Path], tmp_path: Path) -> None:
    job, folder = staged(tmp_path, models[family], ROWS), models[family]
    argv = job_argv(task="seq2seq", batch_size=4, max_steps=6, logging_steps=1, padding="longest", attention="eager",
                    learning_rate=0.01)  # fmt: skip
    settings = resolve_settings(argv, job.environment, Events(enabled=False))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager")
    keeper = CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None)
    ours = JobTrainer(settings, copy.deepcopy(model), meter.Meter(meter.clock_for("cpu"), 1), keeper)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    aside = read_texts(settings.folders.validation / TARGETS, ("source",))[0]
    rows = [row for row in ROWS if row["mr"] not in set(aside)]
    examples = [
        dict(tokenizer(f"say: {row['mr']}", text_target=row["ref"], truncation=True, max_length=48)) for row in rows
    ]
    fields = trainer_arguments(settings).to_dict()
    names = ("output_dir", "max_steps", "learning_rate", "per_device_train_batch_size", "seed", "optim", "use_cpu")
    arguments = transformers.Seq2SeqTrainingArguments(
        **{name: fields[name] for name in names}, logging_steps=1, save_strategy="no", disable_tqdm=True, report_to=[],
        weight_decay=fields["weight_decay"], warmup_steps=fields["warmup_steps"],
        lr_scheduler_type=fields["lr_scheduler_type"],
    )  # fmt: skip
    theirs = transformers.Seq2SeqTrainer(
        model, arguments, transformers.DataCollatorForSeq2Seq(tokenizer, model=model), examples
    )
    theirs._get_train_sampler = lambda *_: ours.sampler
    losses = []
    for trainer in (ours, theirs):
        trainer.train()
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)
    assert losses[0][-1] < losses[0][0] - 0.1


@pytest.mark.parametrize("launcher", [(), pytest.param(TORCHRUN, marks=pytest.mark.slow)])
def test_an_evaluation_generates_for_each_source_once(launcher: Any, models: dict[str, Path], tmp_path: Path) -> None:
    job = staged(tmp_path, models["bart"], ROWS, generate_rows=7)
    arguments = {"batch_size": 4, "eval_batch_size": 3, "max_steps": 10, "learning_rate": 0.02, "precision": "bf16"}
    ended = job.run(launcher, task="seq2seq", padding="longest", **arguments)
    metrics, table = ended.result["metrics"], ended.result["tables"]["predictions.json"]
    folder = Path(job.environment["SM_CHANNEL_VALIDATION"])
    sources, targets = read_texts(folder / TARGETS, ("source", "target"))
    # 10 sources with two references each; the first seven are generated for.
    assert len(sources) == 20
    assert [row["source"] for row in table] == list(dict.fromkeys(sources))[:7]
    for row in table:
        own = [target for source, target in zip(sources, targets, strict=True) if source == row["source"]]
        assert row["reference"] == own
        assert len(own) == 2
    assert len({row["prediction"] for row in table} - {""}) > 0
    expected = text_scores([row["prediction"] for row in table], [row["reference"] for row in table])
    assert {name: metrics[f"eval_{name}"] for name in expected} == pytest.approx(expected)
    # In the precision of the evaluation, the saved model generates the same.
    predictor = load_predictor(ended.folder / "model", precision="bf16", max_length=48)
    predictor.loaded = replace(predictor.loaded, options={**OPTIONS, "num_beams": 1})
    answers = predictor.answer([row["source"] for row in table])
    assert [each["generated_text"] for each in answers] == [row["prediction"] for row in table]
    assert metrics["eval_loss"] == pytest.approx(loss_by_hand(ended.folder / "model", folder), rel=2e-2)


def loss_by_hand(model_folder: Path, channel_folder: Path) -> float:
    """Return the mean loss over all target tokens, one row at a time, in single precision."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(model_folder)
    rows, losses = read_channel(channel_folder, "seq2seq", (), (TARGET_IDS,)).rows, list[float]()
    for at in range(len(rows)):
        ids, target = (torch.tensor(np.array([rows[at][name]], np.int64)) for name in ("input_ids", TARGET_IDS))
        with torch.no_grad():
            probabilities = model(input_ids=ids, labels=target).logits[0].double().softmax(-1)
        losses += [-math.log(probabilities[place, token]) for place, token in enumerate(target[0].tolist())]
    return sum(losses) / len(losses)


@pytest.mark.slow
def test_compiled_layers_train_the_same_and_are_compiled_once(models: dict[str, Path], tmp_path: Path) -> None:
    job = staged(tmp_path, models["t5"], ROWS)
    fields = {"task": "seq2seq", "batch_size": 4, "max_steps": 5, "logging_steps": 1, "padding": "longest"}
    ended = job.run(**fields, compiler="inductor")
    assert ended.result["metrics"]["compile/recompiles"] == 0
    losses = ended.losses
    assert losses == pytest.approx(job.run(**fields).losses[len(losses) :], rel=1e-4)


def test_a_row_by_hand() -> None:
    """A BERT-like target loses [CLS], a GPT-like one gets an end, and a cut one keeps its end."""
    row = Row(1, ("who won", "the Broncos won"))
    options = {"source_prefix": "say: ", "max_target_length": 4, "max_length": 64}
    for kind, starts_at in (("wordpiece", 1), ("byte_level", 0)):
        tokenizer = KINDS[kind]()
        encoded = SEQ2SEQ.encoder(tokenizer, options, False)([row], [[]])
        [target] = encoded.columns[TARGET_IDS].to_pylist()
        plain = tokenizer("the Broncos won", truncation=True, max_length=4)["input_ids"]
        assert target == plain[starts_at:]
        assert target[-1] == tokenizer.sep_token_id
        assert encoded.columns["input_ids"].to_pylist() == [tokenizer("say: who won")["input_ids"]]
        assert encoded.cut_rows == 1
    tokenizer = without_special_tokens()
    whole = SEQ2SEQ.encoder(tokenizer, {**options, "max_target_length": 40}, True)([row], [[]])
    plain = tokenizer("the Broncos won")["input_ids"]
    assert whole.columns[TARGET_IDS].to_pylist() == [[*plain, tokenizer.eos_token_id]]
    assert whole.cut_rows == 0


def test_targets_are_padded_and_count_as_work() -> None:
    ignored = IGNORED_LABEL
    rows = [
        {"input_ids": np.array([5, 6, 7]), TARGET_IDS: np.array([8, 9])},
        {"input_ids": np.array([5]), TARGET_IDS: np.array([4, 3, 2])},
    ]
    batch = Collator(Padding("longest", 12), METADATA, SEQ2SEQ.targets, batch_size=3)(rows)
    assert batch["labels"].tolist() == [[8, 9, ignored], [4, 3, 2]]
    # 4 tokens are read and 5 generated; pairs are 9 + 1 in the encoder, 2 x 2 + 2 x 3 and 3 x 3 + 3 x 1 in the decoder.
    assert batch[WORK] == Work(samples=2, tokens=9, positions=12, pairs=32, decoder_tokens=5)
    # Where the shapes of batches are limited, targets have the longest permitted length.
    batch = Collator(Padding("max_length", 4), METADATA, SEQ2SEQ.targets, batch_size=3)(rows)
    assert batch["labels"].tolist() == [[8, 9, *[ignored] * 3], [4, 3, 2, ignored, ignored]]


def test_flops_count_each_token_with_its_own_side() -> None:
    model = t5(40)
    d, inner, ff = 16, 16, 32
    encoder = 2 * (4 * d * inner + 2 * d * ff + 2 * d) + d
    decoder = 8 * d * inner + 2 * d * ff + 3 * d + d
    assert meter.multiplied_parameters(model) == encoder + decoder + 40 * d
    share = meter.decoder_share(model)
    assert share == pytest.approx((decoder + 40 * d) / (encoder + decoder + 40 * d))
    steady = meter.Steady(2.0, Work(1, 30, 30), 5, (1.0, 1.0, 1.0))
    work = Work(1, 30, 30, 0, decoder_tokens=10)
    metrics = meter.throughput_metrics(steady, work, encoder + decoder + 40 * d, None, None, share)
    assert metrics["throughput/steady_tokens_per_second"] == 15
    expected = 6 * (20 * encoder + 10 * (decoder + 40 * d)) / 2
    assert metrics["throughput/model_flops_per_second"] == pytest.approx(expected)
    assert meter.decoder_share(transformers.GPT2Model(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1))) == 0


GOLDEN = [
    ("The cat sat on the mat.", "the cat is on the mat", 0.8333333333333334),
    (
        "Alimentum is a family-friendly place, in the city centre",
        "In the city centre is Alimentum: it is not family-friendly.",
        0.380952380952381,
    ),
    ("a b c d e f", "f e d c b a", 0.16666666666666666),
    ("x_1 costs £20", "x 1 costs 20", 1.0),
    ("nothing in common", "other words", 0.0),
    ("", "empty", 0.0),
]
"""F-measures of rouge-score 0.1.2, `RougeScorer(["rougeL"], use_stemmer=False)`."""


@pytest.mark.parametrize(("text", "reference", "expected"), GOLDEN)
def test_rouge_l_is_that_of_rouge_score(text: str, reference: str, expected: float) -> None:
    assert rouge_l(text, reference) == pytest.approx(expected, abs=1e-15)


def test_words_of_every_language_count() -> None:
    assert words("Le café, 20 €!") == ["le", "café", "20"]
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert rouge_l("ένα δύο", "ένα τρία") == 0.5


def test_scores_use_all_references_of_a_text() -> None:
    texts, references = ["the cat sat on the mat", "a dog ran home fast"], [["no", "the cat sat on the mat"], ["a dog"]]
    scores = text_scores(texts, references)
    # The second text shares 2 of 5 words, 1 of 4 pairs and 0 of 3 triples with its reference, the first all.
    precisions = [8 / 11, 6 / 9, 4 / 7, 3 / 5]
    assert scores["bleu"] == pytest.approx(100 * math.prod(precisions) ** 0.25)
    assert scores["rouge_l"] == pytest.approx(100 * (1 + 2 * 2 / 7) / 2)
    assert text_scores(["a b c d"], [["a b c d", "x"]]) == pytest.approx({"bleu": 100, "chrf": 100, "rouge_l": 100})


def test_bad_rows_are_named_together(models: dict[str, Path], tmp_path: Path) -> None:
    rows = [*ROWS[:4], {"mr": "name[x]", "ref": " "}, {"mr": "", "ref": "y"}, {"mr": "name[z]", "ref": 7.5}]
    with pytest.raises(InputError) as error:
        staged(tmp_path, models["bart"], rows)
    message = str(error.value)
    for part in (
        "line 5",
        "column 'ref' is empty",
        "line 6",
        "column 'mr' is empty",
        "line 7",
        "must be text, not 7.5",
    ):
        assert part in message
    with pytest.raises(InputError, match=r"max_target_length is 65, but .* accepts at most 64 tokens"):
        staged(tmp_path, models["bart"], ROWS, max_target_length=65)


def test_references_of_a_source_are_not_divided(models: dict[str, Path], tmp_path: Path) -> None:
    job = staged(tmp_path, models["t5"], ROWS)
    sources, _ = read_texts(Path(job.environment["SM_CHANNEL_VALIDATION"]) / TARGETS, ("source", "target"))
    assert len(sources) == 20
    assert len(set(sources)) == 10


def test_only_encoder_decoders_fit() -> None:
    for family, make in FAMILIES.items():
        assert find_task({**make(40).config.to_dict(), "architectures": [type(make(40)).__name__]}) is SEQ2SEQ, family
    assert find_task({"architectures": ["LlavaForConditionalGeneration"], "is_encoder_decoder": False}) is None
