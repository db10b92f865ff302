"""Overrides from the command line, from arms and from backend files, applied by dotted name to an experiment's tree.

The last part turns errors of pydantic into sentences with the location of the field.
"""

from __future__ import annotations

import copy
import difflib
import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from experiments.schema.fields import OPTIONS_OF_COMPILERS, ExperimentFields
from experiments.schema.other_names import OTHER_NAMES, advice, hint
from experiments.schema.yaml_document import Document, parse, scalar
from training.contract.errors import InputError, InputErrors, nearest, nearest_name
from training.contract.frozen import broken_rule, dotted
from training.services.registry import SECTIONS

Tree = dict[str, Any]
UNIONS = (Union, types.UnionType)
IN_FILE = re.compile(r"(script\.files)\.(.+?\.(?:ya?ml|json|toml))\.(.+)")
"""Dotted name of a value in one of the files that are written for a script."""
ALTERNATIVES = (
    ("model", "model_type"),
    ("epochs", "max_steps"),
    ("data.train", "data.hub", "data.builtin"),
    ("data.labels", "data.label_map"),
)
"""Groups of fields that cannot be combined. Setting one field of a group removes the others."""
DEPENDENT_FIELDS = {
    "model": ("model_revision", "weights"),
    "model_type": ("model_overrides", "tokenizer", "weights"),
    "data.train": ("data.validation", "data.encoding", "data.delimiter", "data.header"),
}
"""Fields that are removed together with another field. A compiler also removes the options of others."""
SHORTHANDS = {"arguments": "style", "image": "uri"}
"""Section that may be written as a text -> its field that holds the text."""


def with_overrides(tree: Tree, overrides: Mapping[str, str]) -> Tree:
    """Return the tree with the overrides of a command line, each converted to the type of its field."""
    values, errors = read_overrides(overrides)
    if errors:
        raise InputErrors(errors)
    return with_values(tree, values)


def read_overrides(overrides: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the overrides that can be read, each converted to the type of its field, and the errors of the others."""
    values: dict[str, Any] = {}
    errors: list[str] = []
    for name, text in overrides.items():
        try:
            values[name] = read_override(name, text)
        except InputError as error:
            errors.append(str(error))
    return values, errors


def read_override(name: str, text: str) -> Any:
    """Return the value of `name=text`: text for a text field, else a YAML value. A list may also be written `32,64`."""
    kinds = known_fields().get(name)
    if kinds is None and is_field(name):
        return scalar(text.strip())
    if kinds is None:
        override = f"{name}={text}"[:80]
        raise InputError(unknown_field(name, f"override {override if override.isprintable() else repr(override)}"))
    if types.NoneType in kinds and text in {"", "~", "null"}:
        return None
    if str in kinds:
        return text
    if kinds & {tuple, dict}:
        if text.lstrip().startswith(("[", "{")):
            return parse(text, f"override {name}")[0]
        return [scalar(item.strip()) for item in text.split(",")] if tuple in kinds else text
    return scalar(text.strip())


ARM_PREFIX = "compare.arms."
"""Beginning of the overrides of one arm: `compare.arms.NAME.FIELD`."""


def with_arm_overrides(tree: Tree, overrides: Mapping[str, str]) -> tuple[Tree, list[str]]:
    """Return the tree with fields of named arms set, and the errors of the overrides that cannot be applied."""
    compare = tree.get("compare")
    arms = copy.deepcopy(compare.get("arms") if isinstance(compare, dict) else None)
    errors: list[str] = []
    for name, text in overrides.items():
        try:
            _set_in_arm(arms, name, text)
        except InputError as error:
            errors.append(str(error))
    return with_values(tree, {"compare.arms": arms}) if arms else tree, errors


def _set_in_arm(arms: Any, override: str, text: str) -> None:
    """Set a field of an arm in `arms`, a mapping of arms by name or a list of arms. Raises InputError."""
    if isinstance(arms, list):
        named = {each["name"]: at for at, each in enumerate(arms) if isinstance(each, dict) and "name" in each}
    else:
        named = {name: name for name in arms} if isinstance(arms, dict) else {}
    rest = override.removeprefix(ARM_PREFIX)
    names = [name for name in map(str, named) if rest.startswith(f"{name}.")]
    if not names:
        known = f"The named arms are {', '.join(map(str, named))}." if named else "This experiment has no named arms."
        raise InputError(f"override {override}: compare.arms has no arm of this name. {known}")
    name = max(names, key=len)
    field = rest[len(name) + 1 :]
    if not is_field(field):
        raise InputError(unknown_field(field, f"override {override}"))
    arm = arms[named[name]]
    nested = with_values({}, dict(flat(arm))) if isinstance(arm, dict) else {}
    arms[named[name]] = with_values(nested, {field: read_override(field, text)})


def flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested mappings by dotted name. An arm thus changes single entries of a mapping.

    The entries of a mapping with arbitrary keys, such as a script's hyperparameters, stay whole, but not its files.
    """
    for name, value in fields.items():
        if isinstance(value, Mapping) and not _is_whole(prefix + name, value):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_whole(name: str, value: Mapping[str, Any]) -> bool:
    """Return True for a mapping that is set as a whole. In a script's file, these are mappings with dotted keys."""
    return any("." in str(key) for key in value) if IN_FILE.fullmatch(f"{name}.key") else is_entry(name)


def with_values(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """Return the tree with values set by dotted name, without the fields that these values exclude."""
    merged = copy.deepcopy(tree)
    for group in ALTERNATIVES:
        chosen = [
            field for field in group if any(_is_under(name, field) for name in values if values[name] is not None)
        ]
        for field in group:
            if chosen and field not in chosen:
                for removed in (field, *DEPENDENT_FIELDS.get(field, ())):
                    _remove(merged, removed)
    for option, compiler in OPTIONS_OF_COMPILERS.items():
        if values.get("compiler", compiler) != compiler and option not in values:
            _remove(merged, option)
    for name, value in values.items():
        _set(merged, keys_of(name), value)
    return merged


def _is_under(name: str, field: str) -> bool:
    return name == field or name.startswith(field + ".")


def _set(tree: Tree, keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        if not isinstance(tree.get(key), dict):
            tree[key] = {SHORTHANDS[key]: tree[key]} if key in SHORTHANDS and isinstance(tree.get(key), str) else {}
        tree = tree[key]
    tree[keys[-1]] = value


def _remove(tree: Tree, name: str) -> None:
    *parents, last = name.split(".")
    for key in parents:
        tree = tree.get(key, {})
        if not isinstance(tree, dict):
            return
    tree.pop(last, None)


def keys_of(name: str) -> list[str]:
    """Return the keys of a dotted name. A key of an open mapping may contain dots."""
    if match := IN_FILE.fullmatch(name):
        return [*match[1].split("."), match[2], *match[3].split(".")]
    dots = (at for at, letter in enumerate(name) if letter == ".")
    outer = next((name[:at] for at in dots if _is_open(name[:at])), None)
    return name.split(".") if outer is None else [*outer.split("."), name[len(outer) + 1 :]]


def is_field(name: str) -> bool:
    """Return True if a dotted name is a field or an entry of an open mapping."""
    return name in known_fields() or is_entry(name)


def is_entry(name: str) -> bool:
    """Return True if a dotted name is an entry of an open mapping."""
    return IN_FILE.fullmatch(name) is not None or _is_open(".".join(keys_of(name)[:-1]))


def _is_open(name: str) -> bool:
    """Return True if a field is a mapping with arbitrary keys."""
    known = known_fields()
    return dict in known.get(name, ()) and not any(field.startswith(f"{name}.") for field in known)


@cache
def known_fields() -> dict[str, frozenset[Any]]:
    """Return all fields by dotted name, each with the types of its values."""
    return {name: frozenset(_kinds(field.annotation)) for name, field in fields_of(ExperimentFields)}


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield all fields of a model with their dotted names, each section before its fields."""
    for name, field in model.model_fields.items():
        yield prefix + name, field
        if section := section_of(field):
            yield from fields_of(section, f"{prefix}{name}.")


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that groups other fields; None for any other field."""
    kinds = get_args(field.annotation) if get_origin(field.annotation) in UNIONS else (field.annotation,)
    return next(filter(_is_model, kinds), None)


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the plain types of an annotation. A literal counts as str, a model as dict."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in UNIONS:
        for part in get_args(annotation):
            yield from _kinds(part)
    elif origin is Literal:
        yield str
    else:
        yield dict if _is_model(annotation) or origin is Mapping else origin or annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def unknown_field(name: str, location: str) -> str:
    """Return the message for a field that does not exist, with a suggestion."""
    return f"unknown field {name[:80]!r} ({location}).{_meant(name, [*known_fields(), 'experiment'])}"


def _meant(name: str, known: Collection[str]) -> str:
    """Return a sentence with the field in `known` that a user most likely meant; empty if no name is close.

    A name that is right but for its section counts first, then the name of another tool, then the closest spelling.
    """
    leaf = name.rpartition(".")[2]
    inner = next((field for field in known if field.rpartition(".")[2] == leaf), None)
    if (sentence := advice(leaf)) and (not inner or leaf == name):
        return sentence
    foreign = next(iter(difflib.get_close_matches(leaf, OTHER_NAMES, n=1, cutoff=SAME_NAME)), None)
    match = inner or foreign or nearest_name(name, known)
    return f" Did you mean '{OTHER_NAMES.get(match, match)}'?" if match else ""


SAME_NAME = 0.85
"""Similarity from which a name is another tool's, misspelled. A field here may be less alike, because it is shown."""
BACKEND_CONFIG = "backend_config"
"""Override that names a backend configuration."""
BACKEND_FIELDS = ("service", "machine", *SECTIONS)
"""Fields that a backend configuration may set."""


def backend_values(document: Document) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a backend configuration and their locations, by dotted name. Raises InputError.

    The file sets where jobs run, for any experiment. MLflow's local backend does not pass `--backend-config` to the
    project: the parameter `backend_config` names the file instead.
    """
    values, locations = {}, {}
    for name, value in flat(document.tree):
        location = _location(keys_of(name), document, {})
        if name.split(".")[0] not in BACKEND_FIELDS:
            raise InputError(
                f"{name[:80]} is not a field of a backend configuration ({location}). It may set only "
                f"{', '.join(BACKEND_FIELDS)}"
            )
        if not is_field(name):
            raise InputError(unknown_field(name, location))
        values[name], locations[name] = value, location
    return values, locations


def messages(error: ValidationError, document: Document, other_locations: Mapping[str, str]) -> list[str]:
    """Return the messages for the problems of an error.

    `other_locations` maps dotted names that the document does not set to their locations, such as an override.
    """
    problems: list[Any] = sorted(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
    # A misspelt key also makes the right one missing. The misspelt key is the better message.
    misspelt = {each["loc"][:-1] for each in problems if each["type"] == "extra_forbidden"}
    kept = [each for each in problems if each["type"] != "missing" or each["loc"][:-1] not in misspelt]
    return list(dict.fromkeys(_message(each, document, other_locations) for each in kept))


def rule_message(rule: str, document: Document, other_locations: Mapping[str, str]) -> str:
    """Return the message for a rule between fields, with the location of the first field that it names."""
    message = printable(rule)
    return f"{message} ({_location(_field_named_in(message), document, other_locations)})"


def _message(problem: Any, document: Document, other_locations: Mapping[str, str]) -> str:
    # The name of a field, and not pydantic's name of a branch of a union.
    path = tuple(part for part in problem["loc"] if isinstance(part, int) or "[" not in part)
    name = dotted(path)
    if problem["type"] == "value_error":
        message = printable(str(problem["ctx"]["error"]))
        return f"{message} ({_location(_field_named_in(message) or path, document, other_locations)})"
    location = _location(path[:-1] if problem["type"] == "missing" else path, document, other_locations)
    if problem["type"] == "extra_forbidden":
        return unknown_field(name, location)
    keys = [field.rpartition(".")[2] for field in known_fields() if field.startswith(f"{name}.")]
    return f"{printable(name)} {broken_rule(problem, keys)} ({location}){_hint(problem)}"


def printable(message: str) -> str:
    """Return a message with invisible characters, such as a byte order mark, escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in message)


def _field_named_in(message: str) -> tuple[str, ...]:
    """Return the path of the first field that a message names."""
    named = (word.strip("':,.") for word in message.split())
    name = next((word for word in named if is_field(word)), None)
    return tuple(keys_of(name)) if name else ()


def _hint(problem: Any) -> str:
    if problem["type"] != "literal_error" or not isinstance(problem["input"], str):
        return ""
    known = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
    meant = (hint if problem["loc"][-1:] == ("task",) else nearest)(problem["input"], known)
    return f".{meant}" if meant else ""


def _location(path: Sequence[str | int], document: Document, other_locations: Mapping[str, str]) -> str:
    """Return the override or the line that sets a value, or else the file."""
    name = dotted(path)
    for other, location in other_locations.items():
        if _is_within(name, other) or (name and _is_within(other, name)):
            return location
    for end in range(len(path), 0, -1):
        if line := document.lines.get(tuple(path[:end])):
            return f"{document.name} line {line}"
    return document.name


def _is_within(name: str, outer: str) -> bool:
    return name == outer or name.startswith((f"{outer}.", f"{outer}["))
