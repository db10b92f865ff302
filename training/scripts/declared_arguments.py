"""Arguments that a script declares with argparse, read from its source without running it.

Only what is certain counts: the option strings and the action must be literals, and all declarations of an option must
agree. Read are the entry point and the modules of the source that it imports.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from training.contract.script_entry import Form

MAX_FILES = 200
"""Most files that are read for one script."""
OTHER_PARSERS = frozenset(
    (
        "HfArgumentParser",
        "TrlParser",
        "fire",
        "click",
        "typer",
        "tyro",
        "absl",
        "hydra",
        "simple_parsing",
        "jsonargparse",
    )
)
"""Names of parsers that read the arguments of an entry point by rules of their own."""
FLAG_ACTIONS = frozenset({"store_true", "store_false", "store_const", "append_const"})


@dataclass(frozen=True, kw_only=True)
class DeclaredArguments:
    """Arguments that argparse accepts, as far as the source shows them."""

    forms: Mapping[str, Form]
    """Name without hyphens, or name of a positional argument, to the form that its declaration requires, in order."""
    names: frozenset[str]
    """Names of all declared options, without hyphens."""
    file: str
    """Entry point, for messages."""


def declared_arguments(folder: Path, entry_point: str) -> DeclaredArguments:
    """Return the arguments that the entry point declares. A file that is not Python, or cannot be read, has none."""
    forms: dict[str, set[Form | None]] = {}
    names: set[str] = set()
    for tree in _trees(folder, entry_point):
        for name, is_option, form in _declarations(tree):
            forms.setdefault(name, set()).add(form)
            names.update({name} if is_option else ())
    certain: dict[str, Form] = {
        name: form for name, declared in forms.items() if len(declared) == 1 for form in declared if form is not None
    }
    pairs = [name for name in certain if certain[name] == "flag" and certain.get(f"no-{name}") == "flag"]
    certain |= dict.fromkeys(pairs, "no-flag")
    return DeclaredArguments(forms=certain, names=frozenset(names), file=entry_point)


def _trees(folder: Path, entry_point: str) -> Iterator[ast.Module]:
    """Yield the syntax trees of the entry point and of the modules of the source that it imports.

    What an imported module does only as a program is left out, and so are the modules of an entry point whose own
    parser is not argparse.
    """
    entry = module_file(folder, entry_point)
    pending, read = [entry], set[Path]()
    while pending and len(read) < MAX_FILES:
        path = pending.pop()
        if path in read or path.suffix != ".py" or not path.is_file():
            continue
        read.add(path)
        try:
            with warnings.catch_warnings(action="ignore"):  # about the script's own escapes
                tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        imported = list(_imports(tree))
        if path == entry and OTHER_PARSERS & {part for name in imported for part in name.split(".")}:
            imported = []
        yield tree if path == entry else _without_main(tree)
        pending += [file for name in imported for file in _files(name, (path.parent, folder))]


def module_file(folder: Path, entry_point: str) -> Path:
    """Return the file of an entry point. That of `-m package` is its `__main__.py`."""
    if not entry_point.startswith("-m "):
        return folder / entry_point
    path = folder.joinpath(*entry_point[3:].strip().split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def _without_main(tree: ast.Module) -> ast.Module:
    """Return a module without its `if __name__ == "__main__":` blocks."""
    body = [each for each in tree.body if not (isinstance(each, ast.If) and "__name__" in ast.unparse(each.test))]
    return ast.Module(body=body, type_ignores=[])


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names)


def _files(name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        path = folder.joinpath(*name.split("."))
        yield path / "__init__.py"
        if name:
            yield path.with_name(f"{path.name}.py")


def _declarations(tree: ast.Module) -> Iterator[tuple[str, bool, Form | None]]:
    """Yield (name, whether it is an option, its form) of each `add_argument(...)`."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if len(texts) == len(node.args) and texts:
                yield from _declared(texts, {each.arg: each.value for each in node.keywords if each.arg})


def _declared(texts: list[str], keywords: Mapping[str, ast.expr]) -> Iterator[tuple[str, bool, Form | None]]:
    if not texts[0].startswith("-"):
        yield texts[0], False, "positional"
        return
    for text in texts:
        yield text.lstrip("-"), True, _form(keywords)


def _form(keywords: Mapping[str, ast.expr]) -> Form | None:
    """Return the form that an option requires, or None if the form depends on the value alone."""
    action = keywords.get("action")
    name = action.value if isinstance(action, ast.Constant) else getattr(action, "attr", getattr(action, "id", None))
    kind = keywords.get("type")
    if name in FLAG_ACTIONS:
        return "flag"
    if name == "BooleanOptionalAction":
        return "no-flag"
    if name in ("append", "extend") and "nargs" not in keywords:
        return "repeat"
    if isinstance(kind, ast.Name) and kind.id == "bool":
        return "empty"
    if isinstance(kind, ast.Attribute) and ast.unparse(kind) == "json.loads":
        return "json"
    return "list" if "nargs" in keywords else None
