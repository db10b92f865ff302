"""Arguments are read from the source of a script only where it is certain what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.scripts.declared_arguments import declared_arguments

ARGPARSE = """\
import argparse, json
from argparse import BooleanOptionalAction
parser = argparse.ArgumentParser()
group = parser.add_argument_group()
parser.add_argument("data")
group.add_argument("-c", "--cpu", action="store_true")
parser.add_argument("--no_progress", action="store_false", dest="progress")
parser.add_argument("--mode", action="store_const", const=1)
parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
parser.add_argument("--amp", action=BooleanOptionalAction)
parser.add_argument("--feature", action="store_true")
parser.add_argument("--no-feature", action="store_false", dest="feature")
parser.add_argument("--tag", action="append")
parser.add_argument("--files", nargs="+")
parser.add_argument("--bias", type=bool, default=True)
parser.add_argument("--config", type=json.loads)
parser.add_argument("--lr", type=float)
parser.add_argument("--" + "dynamic", action="store_true")
parser.add_argument("out", nargs="?")
"""


def test_each_kind_of_declaration_has_its_form(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ARGPARSE)
    declared = declared_arguments(tmp_path, "train.py")
    assert declared.forms == {
        "data": "positional",
        "c": "flag",
        "cpu": "flag",
        "no_progress": "flag",
        "mode": "flag",
        "compile": "no-flag",
        "amp": "no-flag",
        "feature": "no-flag",
        "no-feature": "flag",
        "tag": "repeat",
        "files": "list",
        "bias": "empty",
        "config": "json",
        "out": "positional",
    }
    assert [name for name, form in declared.forms.items() if form == "positional"] == ["data", "out"]
    assert "lr" in declared.names
    assert "dynamic" not in declared.names


def test_modules_that_the_script_imports_are_read(tmp_path: Path) -> None:
    for name, text in {
        "pkg/__init__.py": "",
        "pkg/__main__.py": "from .options import parser",
        "pkg/options.py": "p.add_argument('--cpu', action='store_true')",
        "unused.py": "p.add_argument('--gpu', action='store_true')",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert declared_arguments(tmp_path, "-m pkg").forms == {"cpu": "flag"}


@pytest.mark.parametrize(
    "files",
    [
        # Two declarations that disagree.
        {"train.py": "a.add_argument('--cpu', action='store_true'); b.add_argument('--cpu', type=str)"},
        # The script's own parser is another one.
        {"train.py": "from transformers import HfArgumentParser\nimport other"},
        # A helper that is a program, too.
        {"train.py": "import main"},
        {"train.py": "def broken(:"},
        {"train.py": "parser.add_argument('--cpu', action=Mine)"},
        {"train.py": "parser.add_argument(*names, action='store_true')"},
    ],
)
def test_nothing_is_guessed(tmp_path: Path, files: dict[str, str]) -> None:
    flag = "p.add_argument('--cpu', action='store_true')"
    helpers = {"other.py": flag, "main.py": f"if __name__ == '__main__':\n    {flag}"}
    for name, text in {**helpers, **files}.items():
        (tmp_path / name).write_text(text)
    assert declared_arguments(tmp_path, "train.py").forms == {}


def test_a_shell_script_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("p.add_argument('--cpu', action='store_true')")
    assert declared_arguments(tmp_path, "run.sh").forms == {}
