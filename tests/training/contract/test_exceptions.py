"""The exception at the end of a program's output, as Python and its launchers print it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training.contract.failures import TRACEBACK, LastException, last_exception, repair_last_traceback


def died(tmp_path: Path, source: str) -> LastException | None:
    """Return the exception of a program, as this Python prints it."""
    (tmp_path / "train.py").write_text(source)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    return last_exception(("started\n" + done.stderr).splitlines())


@pytest.mark.parametrize(
    ("source", "text", "is_at_import"),
    [
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'", True),
        ("def f(:\n    pass", "SyntaxError: invalid syntax", True),
        ("print(undefined)", "NameError: name 'undefined' is not defined", True),
        ("def f():\n    undefined\nf()", "NameError: name 'undefined' is not defined", False),
        ("def f():\n    import not_installed\nf()", "ModuleNotFoundError: No module named 'not_installed'", True),
        ("raise RuntimeError('CUDA error\\nsecond line')", "RuntimeError: CUDA error", False),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError", "ValueError", False),
        ("import json\njson.loads('x')", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)", False),
    ],
)
def test_the_exceptions_of_python_are_read(tmp_path: Path, source: str, text: str, is_at_import: bool) -> None:
    exception = died(tmp_path, source)
    assert exception is not None
    assert str(exception).startswith(text)
    assert exception.is_at_import == is_at_import


def test_the_report_of_a_launcher_is_not_the_cause() -> None:
    log = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/ml/code/train.py", line 3, in <module>
[rank0]:     import evaluate
[rank0]: ModuleNotFoundError: No module named 'evaluate'
E1125 02:29:35 failed (exitcode: 1) local_rank: 0 (pid: 88) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED"""
    assert str(last_exception(log.splitlines())) == "ModuleNotFoundError: No module named 'evaluate'"


def test_an_output_without_a_traceback_has_no_exception() -> None:
    assert last_exception([]) is None
    assert last_exception(["Note: this is a line", "Killed"]) is None
    old = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ImportError: no"]
    assert last_exception([*old, *["step"] * 100]) is None


FRAME = '  File "train.py", line 5, in <module>'
SOURCE = "    third()"
END = ["INFO: uploading", "Error: no such bucket"]


@pytest.mark.parametrize(
    "pieces",
    [
        [FRAME.strip(), "third()", " ", "~", "~", "^", " ", "IndexError", ": list index"],
        [FRAME, SOURCE, "~~~~^^^", "IndexError", ":", "list index"],
        [FRAME, "third()", "~~~~^^^", "IndexError:", "list index"],
        [FRAME.strip(), "third()", "IndexError: list index"],
    ],
)
def test_a_traceback_in_pieces_is_repair_last_traceback(pieces: list[str]) -> None:
    whole = ["step 1", TRACEBACK, FRAME, SOURCE, "IndexError: list index", *END]
    assert repair_last_traceback(["step 1", TRACEBACK, *pieces, *END]) == whole
    assert last_exception(repair_last_traceback([TRACEBACK, *pieces])) == LastException(
        name="IndexError", message="list index", is_at_import=False
    )


@pytest.mark.parametrize(
    "lines",
    [
        [FRAME, SOURCE, "       ~~~^^^", "IndexError: list index"],
        [FRAME, SOURCE, "", "KeyboardInterrupt"],
        [FRAME, SOURCE, "zlib.error: Error -3"],
        [FRAME, SOURCE, "stopped by the system", "bye bye"],
        [FRAME, SOURCE],
    ],
)
def test_other_tracebacks_stay_as_they_are(lines: list[str]) -> None:
    assert repair_last_traceback([TRACEBACK, *lines]) == [TRACEBACK, *lines]
    assert repair_last_traceback(lines) == lines
