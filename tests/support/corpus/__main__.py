"""Compare the product's reading with `expected.json`, or record it there."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.corpus.accepted import ACCEPTED, STAGED
from tests.support.corpus.expected import PATH, expected
from tests.support.corpus.reading import Case, read, staged


def results(cases: Mapping[str, Case], of: Callable[[Case, Path], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of each case, read in a folder of its own."""
    made = {}
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            made[name] = of(case, Path(folder))
    return made


if __name__ == "__main__":
    now = {"read": results(ACCEPTED, read), "staged": results(STAGED, staged)}
    before = expected() if PATH.exists() else {"read": {}, "staged": {}}
    for part, cases in now.items():
        for name in sorted({*cases, *before[part]}):
            if cases.get(name) != before[part].get(name):
                print(f"{part} {name!r}: {json.dumps(cases.get(name), ensure_ascii=False)}")
    if "--write" in sys.argv[1:]:
        lines = (
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in cases.items())
            + "\n}"
            for part, cases in now.items()
        )
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
