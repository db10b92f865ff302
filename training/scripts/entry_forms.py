"""Choose the form of each argument of a script: as the user says, as the script declares it, or as its value requires.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from training.contract.errors import InputError, nearest
from training.contract.script_entry import Form, Style
from training.scripts.declared_arguments import DeclaredArguments

BooleanForm = Literal["auto", "value", "flag", "no-flag"]

_PHRASES: Mapping[Form, str] = {
    "flag": "a flag",
    "no-flag": "--NAME or --no-NAME",
    "empty": "false as an empty text, because type=bool takes any other text as true",
    "list": "all values after one name",
    "repeat": "the name before each value",
    "json": "JSON",
    "positional": "without a name",
}
_BOOLEAN_FORMS = ("flag", "no-flag", "empty")


@dataclass(frozen=True, kw_only=True)
class ArgumentForms:
    """Form of each hyperparameter that the toolkit alone cannot pass."""

    style: Style = "space"
    forms: Mapping[str, Form]
    """Form by name, without `value` and `positional`."""
    positional: tuple[str, ...] = ()
    """Names of positional hyperparameters, in order."""
    inferred: Mapping[str, Form]
    """The forms that were read from the script's source."""

    @property
    def are_plain(self) -> bool:
        """True if the toolkit passes the arguments in the same way."""
        return self.style == "space" and not self.forms and not self.positional


def argument_forms(
    values: Mapping[str, Any],
    declared: DeclaredArguments,
    *,
    style: Style = "space",
    booleans: BooleanForm = "auto",
    overrides: Mapping[str, Form] | None = None,
) -> ArgumentForms:
    """Return the forms of a script's hyperparameters. `overrides` are the user's forms by name. Raises InputError."""
    overrides = overrides or {}
    for name in overrides:
        if name not in values and name not in declared.names:
            raise InputError(
                f"script.arguments.forms.{name} is not the name of a hyperparameter.{nearest(name, values)}"
            )
    chosen: dict[str, Form] = {}
    inferred: dict[str, Form] = {}
    for name, value in values.items():
        form, is_inferred = _form(name, value, declared, style, booleans, overrides)
        _check(name, value, form)
        chosen[name] = form
        if is_inferred and _matters(form, value, style):
            inferred[name] = form
    positional = [name for name in values if chosen[name] == "positional"]
    if all(declared.forms.get(name) == "positional" for name in positional):
        positional.sort(key=list(declared.forms).index)
    return ArgumentForms(
        style=style,
        forms={n: form for n, form in chosen.items() if form != "positional" and _matters(form, values[n], style)},
        positional=tuple(positional),
        inferred=inferred,
    )


def _form(
    name: str,
    value: Any,
    declared: DeclaredArguments,
    style: Style,
    booleans: BooleanForm,
    overrides: Mapping[str, Form],
) -> tuple[Form, bool]:
    """Return (form, whether the script's source determined it)."""
    if name in overrides:
        return overrides[name], False
    required = declared.forms.get(name)
    if isinstance(value, bool):
        if booleans != "auto":
            return booleans, False
        return (required, True) if required in _BOOLEAN_FORMS and required else ("value", False)
    if required == "positional" or (required == "json" and isinstance(value, dict | list)):
        return required, True
    if isinstance(value, list):
        if required in ("list", "repeat") and required:
            return required, True
        return ("list" if style == "space" else "comma"), False
    return "value", False


def _matters(form: Form, value: Any, style: Style) -> bool:
    """Return whether the form differs from `value` for this value."""
    if form == "value" or (form == "empty" and value is not False):
        return False
    return form == "positional" or not (form in ("list", "comma") and not isinstance(value, list) and style == "space")


def _check(name: str, value: Any, form: Form) -> None:
    """Raise InputError for a value that its form cannot pass."""
    where = f"script.hyperparameters.{name}"
    if form in _BOOLEAN_FORMS and not isinstance(value, bool):
        raise InputError(f"{where} must be true or false, because its form is {form!r} (script.arguments)")
    if form in ("list", "repeat", "comma", "positional") and isinstance(value, dict):
        raise InputError(
            f"{where} is a mapping, which its form {form!r} cannot pass: use 'json' (script.arguments.forms)"
        )
    if form == "value" and isinstance(value, list):
        raise InputError(
            f"{where} is a list, which its form 'value' cannot pass: use 'list', 'repeat', 'comma' or 'json' "
            "(script.arguments.forms)"
        )
    parts = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else ()
    if form != "json" and any(isinstance(part, dict | list) or part is None for part in parts):
        raise InputError(
            f"{where} has a list, a mapping or null within its value: only the form 'json' can pass it "
            "(script.arguments.forms)"
        )


def notes(forms: ArgumentForms, declared: DeclaredArguments, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was read from the script's source, and names that it declares with other separators."""
    by_form: dict[Form, list[str]] = {}
    for name, form in forms.inferred.items():
        by_form.setdefault(form, []).append(name)
    if by_form:
        parts = [f"{', '.join(sorted(names))} ({_PHRASES[form]})" for form, names in sorted(by_form.items())]
        yield f"arguments as {declared.file} declares them with argparse: {'; '.join(parts)}"
    for name in values:
        other = name.replace("_", "-") if "_" in name else name.replace("-", "_")
        if name not in declared.names and other in declared.names and name not in declared.forms:
            yield f"{declared.file} declares --{other}, but the hyperparameter is {name}: write {other}"
