"""Every import is declared in pyproject.toml, and every declared dependency is pinned by a lock file."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions

from tests.layout.imports import ORDER, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RUNTIME = tuple(PROJECT["project"]["dependencies"])
DEVELOPMENT = tuple(PROJECT["dependency-groups"]["dev"])
BUILD = tuple(PROJECT["build-system"]["requires"])
IN_CONTAINERS = {"torch_xla", "smdistributed", "sagemaker_training", "torchao", "liger_kernel", "safetensors"}
"""Modules of SageMaker's images, optional packages, and a dependency of peft. The job imports them where they exist."""
OF_OPPONENTS = {"sentence_transformers"}
"""Modules of the environment in which `benchmarks/opponents` runs."""


def distribution_names(requirements: Iterable[str]) -> set[str]:
    """Return the normalised names of requirements (PEP 503)."""
    return {normalised(re.split(r"[ \[<>=~!;]", each.strip())[0]) for each in requirements}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def own_modules() -> frozenset[str]:
    """Return our own top-level names."""
    return frozenset({*ORDER, "benchmarks", "dependencies", "tests"})


def imported_modules(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the top-level module of every third-party import below a folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:
                continue
            for module in {name.partition(".")[0] for name in names}:
                if module not in sys.stdlib_module_names and module not in own_modules():
                    yield str(path.relative_to(ROOT)), module


def undeclared(folders: Iterable[str], declared: set[str]) -> list[str]:
    """Return a message for each import whose distribution is not declared."""
    installed = packages_distributions()
    messages = []
    for folder in folders:
        for path, module in imported_modules(folder):
            # A declared distribution may be split: `sagemaker` is installed by sagemaker-core and others.
            providers = {normalised(name) for name in installed.get(module, ())} | {normalised(module)}
            if module not in IN_CONTAINERS | OF_OPPONENTS and not providers & declared:
                messages.append(f"{path} imports {module}: declare {' or '.join(sorted(providers))} in pyproject.toml")
    return messages


def test_imports_are_declared() -> None:
    assert undeclared([*ORDER, "src"], distribution_names(RUNTIME)) == []
    assert undeclared(["tests", "benchmarks"], distribution_names(RUNTIME + DEVELOPMENT)) == []
    too_few = undeclared(["models"], distribution_names(RUNTIME) - {"numpy"})
    assert any("imports numpy: declare numpy in pyproject.toml" in each for each in too_few)


def test_declared_dependencies_are_pinned() -> None:
    pinned, developers = (
        distribution_names((ROOT / f"requirements{suffix}.lock").read_text().splitlines()) for suffix in ("", "-dev")
    )
    assert distribution_names(RUNTIME + BUILD) - pinned == set()
    assert distribution_names(DEVELOPMENT) - pinned - developers == set()
