"""Cases that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.corpus.accepted_texts import LM, QA, QUESTION_CASES, TEXT_CASES
from tests.support.corpus.files import (
    BOM,
    EVERYTHING,
    HALF,
    LATIN,
    PACKS,
    PAIRS,
    REST,
    SIMPLE,
    WORDS,
    arrow,
    arrow_table,
    feather,
    json_array,
    json_lines,
    lines,
    parquet,
    separated,
    squad,
    tabs,
)
from tests.support.corpus.reading import Case

WORDS_TABLE, ALL_TABLE = arrow_table(WORDS), arrow_table(EVERYTHING)
SIMPLE_TABLE = arrow_table(SIMPLE)
CSV = separated(EVERYTHING).encode()


def _numbers(*labels: Any) -> dict[str, Any]:
    return {"text": [f"text {at}" for at in range(len(labels))], "label": list(labels)}


def _saved(path: Path) -> None:
    import datasets

    datasets.Dataset.from_dict({name: list(values) for name, values in SIMPLE.items()}).save_to_disk(path)


def _class_labels(path: Path) -> None:
    import datasets

    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes", "1"])}
    rows = {"text": [f"t{at}" for at in range(9)], "label": [at % 3 for at in range(9)]}
    datasets.Dataset.from_dict(rows, features=datasets.Features(features)).to_parquet(path)


PLAIN = {
    "jsonl": json_lines(EVERYTHING),
    "ndjson": json_lines(EVERYTHING, ascii_only=True),
    "json": json_array(EVERYTHING),
    "csv": CSV,
    "parquet": parquet(ALL_TABLE),
    "arrow": arrow(ALL_TABLE, stream=True),
    "ipc": arrow(ALL_TABLE, stream=False),
    "feather": feather(ALL_TABLE, "uncompressed"),
}
"""The same rows in all formats that can hold line ends in a text."""
FORMATS = {
    f"{kind}{suffix}": Case(files={f"rows.{kind}{suffix}": pack(content)})
    for kind, content in PLAIN.items()
    for suffix, pack in PACKS.items()
} | {f"tsv{suffix}": Case(files={f"rows.tsv{suffix}": pack(tabs(WORDS))}) for suffix, pack in PACKS.items()}

VARIANTS = {
    "upper-case suffix": Case(files={"ROWS.JSONL.GZ": PACKS[".gz"](json_lines(EVERYTHING))}),
    "jsonl in .json": Case(files={"rows.json": json_lines(EVERYTHING)}),
    "json array, indented": Case(files={"rows.json": json_array(EVERYTHING, indent=2)}),
    "jsonl, byte order mark": Case(files={"rows.jsonl": BOM + json_lines(EVERYTHING)}),
    "jsonl, CRLF": Case(files={"rows.jsonl": json_lines(EVERYTHING, "\r\n")}),
    "jsonl, blank lines": Case(files={"rows.jsonl": b"\n" + json_lines(EVERYTHING, "\n \n\n")}),
    "jsonl, no last line end": Case(files={"rows.jsonl": json_lines(EVERYTHING).rstrip(b"\n")}),
    "jsonl, other keys": Case(
        files={
            "rows.jsonl": b'{"text": "a", "label": "x", "more": 1}\n'
            b'{"more": {"deep": [1, "2"]}, "label": "y", "text": "b", "other": null}\n'
            b'{"text": "not this", "label": "x", "text": "the last of two keys"}\n'
            b'{"label": "y", "more": "words", "text": "d"}\n'
        }
    ),
    "json, byte order mark": Case(files={"rows.json": BOM + json_array(EVERYTHING)}),
    "csv, byte order mark": Case(files={"rows.csv": BOM + CSV}),
    "csv, CRLF, all quoted": Case(files={"rows.csv": separated(WORDS, end="\r\n", quote_all=True).encode()}),
    "csv, blank lines": Case(files={"rows.csv": b"\n" + separated(WORDS, end="\n\n").encode()}),
    "csv, semicolons": Case(files={"rows.csv": separated(EVERYTHING, ";").encode()}),
    "csv, tabs": Case(files={"rows.csv": separated(EVERYTHING, "\t").encode()}),
    "csv, pipes": Case(files={"rows.csv": separated(EVERYTHING, "|").encode()}),
    "csv, line sep=": Case(files={"rows.csv": b"sep=;\r\n" + separated(EVERYTHING, ";").encode()}),
    "csv, any delimiter": Case(files={"rows.csv": separated(EVERYTHING, "^").encode()}, data={"delimiter": "^"}),
    "tsv, CRLF": Case(files={"rows.tsv": tabs(WORDS, "\r\n")}),
    "tsv, byte order mark": Case(files={"rows.tsv": BOM + tabs(WORDS)}),
    "tsv, commas": Case(files={"rows.tsv": separated(EVERYTHING).encode()}),
    "csv, utf-16": Case(files={"rows.csv": separated(EVERYTHING).encode("utf-16")}, data={"encoding": "utf-16"}),
    "csv, utf-16-le": Case(
        files={"rows.csv": separated(EVERYTHING).encode("utf-16-le")}, data={"encoding": "utf-16-le"}
    ),
    "jsonl, utf-16": Case(
        files={"rows.jsonl": json_lines(EVERYTHING).decode().encode("utf-16")}, data={"encoding": "utf-16"}
    ),
    "json, utf-16": Case(
        files={"rows.json": json_array(EVERYTHING).decode().encode("utf-16")}, data={"encoding": "utf-16"}
    ),
    "csv, utf-16, packed": Case(
        files={"rows.csv.gz": PACKS[".gz"](CSV.decode().encode("utf-16"))}, data={"encoding": "utf-16"}
    ),
    **{
        f"csv, {name}": Case(files={"rows.csv": separated(LATIN).encode(name)}, data={"encoding": name})
        for name in ("latin-1", "cp1252", "utf-8-sig", "gb18030")
    },
    "parquet, dictionaries, row groups": Case(
        files={"rows.parquet": parquet(ALL_TABLE, row_group_size=5, use_dictionary=True, compression="zstd")}
    ),
    "parquet, plain, gzip": Case(
        files={"rows.parquet": parquet(ALL_TABLE, use_dictionary=False, compression="gzip", version="1.0")}
    ),
    "parquet, large strings": Case(
        files={"rows.parquet": parquet(arrow_table(EVERYTHING, text=pa.large_string(), label=pa.large_string()))}
    ),
    "parquet, categories": Case(
        files={"rows.parquet": parquet(arrow_table(EVERYTHING, label=pa.dictionary(pa.int8(), pa.string())))}
    ),
    "parquet, more columns": Case(
        files={"rows.parquet": parquet(ALL_TABLE.append_column("n", pa.array([[1, None]] * ALL_TABLE.num_rows)))}
    ),
    "arrow, categories": Case(
        files={
            "rows.arrow": arrow(
                arrow_table(EVERYTHING, label=pa.dictionary(pa.int8(), pa.string())), stream=True, chunk=99
            )
        }
    ),
    "arrow stream, zstd": Case(files={"rows.arrow": arrow(ALL_TABLE, stream=True, codec="zstd")}),
    "feather, lz4": Case(files={"rows.feather": feather(ALL_TABLE, "lz4")}),
    "feather, zstd": Case(files={"rows.feather": feather(ALL_TABLE, "zstd")}),
}

SHARDS = {
    "folder of jsonl": Case(
        files={
            "rows/a.jsonl": json_lines(HALF),
            "rows/b.jsonl": json_lines(REST),
            "rows/.hidden": b"x",
            "rows/_SUCCESS": b"",
        },
        data={"train": "rows"},
    ),
    "folder of csv": Case(
        files={"rows/2.csv": separated(REST).encode(), "rows/1.csv": separated(HALF).encode()}, data={"train": "rows"}
    ),
    "folder of packed tsv": Case(
        files={"rows/1.tsv.gz": PACKS[".gz"](tabs(HALF)), "rows/2.tsv": tabs(REST)}, data={"train": "rows"}
    ),
    "folder of parquet": Case(
        files={
            "rows/part-0.parquet": parquet(SIMPLE_TABLE[:6]),
            # Another order of the columns, and another type of text.
            "rows/part-1.parquet": parquet(arrow_table({name: REST[name] for name in ("label", "text")})),
        },
        data={"train": "rows"},
    ),
    "pattern": Case(
        files={"rows/1.csv": separated(HALF).encode(), "rows/2.csv": separated(REST).encode(), "rows/n.txt": b"x"},
        data={"train": "rows/*.csv"},
    ),
    "pattern of folders": Case(
        files={
            "y/a=1/r.arrow": arrow(SIMPLE_TABLE[:6], stream=True),
            "y/a=2/r.arrow": arrow(SIMPLE_TABLE[6:], stream=False),
        },
        data={"train": "y/*/*.arrow"},
    ),
    "own validation": Case(
        files={"train.csv": separated(SIMPLE).encode(), "dev.csv": separated(HALF).encode()},
        data={"validation": "dev.csv"},
    ),
    "saved to disk": Case(files={"saved": _saved}, data={"train": "saved/*.arrow"}),
    "folder like the Hub": Case(files={"hub/train.parquet": _class_labels}, data={"hub": {"name": "hub"}}),
    "folder like the Hub, two splits": Case(
        files={"hub/train.jsonl": json_lines(SIMPLE), "hub/validation.jsonl": json_lines(HALF)},
        data={"hub": {"name": "hub", "splits": {"validation": "validation"}}},
    ),
    "ClassLabel in a map": Case(
        files={"hub/train.parquet": _class_labels},
        data={"hub": {"name": "hub"}, "label_map": {"right": ["yes", 2], "wrong": ["no"]}},
    ),
}

STARS = {"bad": [1, 2], "fair": [3], "good": [4, "5"]}
LABEL_CASES = {
    "whole numbers": Case(files={"r.jsonl": json_lines(_numbers(*[2, 0, 10] * 3))}),
    "numbers in csv": Case(
        files={"r.csv": separated(_numbers("1", "1.0", " 10", "2", "1", "2,0", "10.00", "2", "10", "1")).encode()}
    ),
    "floats in parquet": Case(files={"r.parquet": parquet(arrow_table(_numbers(1.0, 0.0, 1.0, 0.0, 1.0, 0.0)))}),
    "small integers in parquet": Case(
        files={"r.parquet": parquet(arrow_table(_numbers(1, 0, 1, 0, 1, 0), label=pa.int8()))}
    ),
    "names and indices": Case(
        files={"r.jsonl": json_lines(_numbers(0, 1, 1, 0, 1, 0))}, data={"labels": ["negative", "positive"]}
    ),
    "names of names": Case(
        files={"r.csv": separated(_numbers(*["pos", "neg"] * 3)).encode()}, data={"labels": ["pos", "neg"]}
    ),
    "names are numbers": Case(
        files={"r.csv": separated(_numbers(*["1", "2.0", "3"] * 2)).encode()}, data={"labels": ["3", "1", "2"]}
    ),
    "map of stars": Case(
        files={"r.csv": separated(_numbers("5", "1", "4.0", "3", "2", "3,0", "1", "5")).encode()},
        data={"label_map": STARS},
    ),
    "map of numbers": Case(
        files={"r.jsonl": json_lines(_numbers(5, 1, "4", 3.0, 2, 3, 1, 5))}, data={"label_map": STARS}
    ),
    "skipped labels": Case(
        files={"r.tsv": tabs(PAIRS)},
        data={
            "columns": {"text": "premise", "text_pair": "hypothesis", "label": "gold"},
            "skip_labels": ["-"],
        },
    ),
    "negative numbers skipped": Case(
        files={"r.jsonl": json_lines(_numbers(0, -1, 1, 0, 1, -1.0, 1, 0))}, data={"skip_labels": [-1]}
    ),
    "limits and split": Case(
        files={"r.csv": separated(SIMPLE).encode()},
        data={"train_rows": 5, "validation_rows": 3, "validation_share": 0.4, "split_seed": 9},
    ),
    "another share and seed": Case(
        files={"r.csv": separated(SIMPLE).encode()}, data={"validation_share": 0.5, "split_seed": 3}
    ),
}

ACCEPTED = FORMATS | VARIANTS | SHARDS | LABEL_CASES | QUESTION_CASES | TEXT_CASES
"""Cases by name."""

STAGED = {
    "words": FORMATS["csv"],
    "pairs": LABEL_CASES["skipped labels"],
    "map": LABEL_CASES["map of stars"],
    "questions": Case(
        files={"q.json": squad("v2.0")},
        options={"max_length": 16, "doc_stride": 4, "n_best_answers": 5, "max_answer_length": 6},
        **QA,
    ),
    "blocks": Case(files={"t.txt": lines(WORDS)}, options={"max_length": 64}, **LM),
    "rows": Case(files={"t.txt": lines(WORDS)}, options={"packing": False}, **LM),
}
"""Cases whose channels are compared, too."""
