"""Docstrings open with a verb or a noun phrase, and names use the vocabulary of docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.layout.imports import ORDER, ROOT

OPENINGS = re.compile(
    r"(What|Of|How|Whether|Who|Whoever|Where|When)\b|Tell (whether|what|how|if)\b"
    r"|Return (what|how(?! (many|much|often|far))|where|who)\b"
)
"""Openings of a docstring that make a reader stop."""
NAMES = frozenset(
    {"told", "tell", "tells", "telling", "heard", "hears", "found", "asked", "wanted", "alone", "whoever"}
)
"""Words that explain nothing in a name; a name says what it holds."""
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
PHRASES = re.compile(
    r"\b(is|are|was|were) told\b|\btells? (of|what|that|how|whether)\b|\bgoes on\b|\bwhoever\b"
    r"|\bthere (is|are) none\b|\bis none\b|\ba processor\b",
    re.IGNORECASE,
)
"""Phrases of a translation rather than of English."""


@cache
def files() -> tuple[Path, ...]:
    return tuple(path for top in (*ORDER, "benchmarks", "tests") for path in sorted((ROOT / top).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every string that is a statement, with its line: docstrings of modules, functions, fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name that a file binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


@pytest.mark.parametrize("top", [*ORDER, "benchmarks", "tests"])
def test_no_docstring_opens_like_a_translation(top: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {text.splitlines()[0][:80]}"
        for path in files()
        if path.is_relative_to(ROOT / top)
        for line, text in docstrings(tree_of(path))
        if OPENINGS.match(text)
    ]
    assert wrong == []


@pytest.mark.parametrize("top", [*ORDER, "benchmarks"])
def test_no_name_uses_the_banned_vocabulary(top: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in files()
        if path.is_relative_to(ROOT / top)
        for line, name in names(tree_of(path))
        if NAMES & set(name.lower().split("_"))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", TEXTS)
def test_no_document_reads_like_a_translation(name: str) -> None:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    assert [f"{number}: {line[:100]}" for number, line in enumerate(lines, 1) if PHRASES.search(line)] == []


@pytest.mark.parametrize(
    "text", ["What of a job ...", "Whether it ran.", "Return how it went.", "Tell whether it ran."]
)
def test_a_banned_opening_is_recognised(text: str) -> None:
    assert OPENINGS.match(text)
