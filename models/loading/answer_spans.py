"""Load the job's module for question answering from its file.

The job's files import each other by bare names, so they cannot be imported here as a package. The job's
`answer_spans.py` imports no other file of the job, so it can be loaded alone.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().parents[2] / "training" / "job" / "tasks" / "answer_spans.py"


def load_answer_spans() -> Any:
    """Return the module `training/job/tasks/answer_spans.py`."""
    spec = importlib.util.spec_from_file_location("trainfare_answer_spans", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


answer_spans: Any = load_answer_spans()
