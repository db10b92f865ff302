"""The form of each argument, and the errors for values that a form cannot pass."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.errors import InputError
from training.scripts.declared_arguments import DeclaredArguments
from training.scripts.entry_forms import argument_forms, notes

DECLARED = DeclaredArguments(
    forms={
        "out": "positional",
        "cpu": "flag",
        "amp": "no-flag",
        "bias": "empty",
        "tag": "repeat",
        "files": "list",
        "config": "json",
        "data": "positional",
    },
    names=frozenset({"cpu", "amp", "bias", "tag", "files", "config", "log-interval"}),
    file="train.py",
)
NOTHING = DeclaredArguments(forms={}, names=frozenset(), file="train.py")


def test_plain_values_need_no_form() -> None:
    plain = argument_forms({"lr": 0.1, "name": "a b", "do_train": True, "steps": 3, "opts": {"a": 1}}, NOTHING)
    assert plain.are_plain


def test_what_the_script_declares_is_taken() -> None:
    values = {
        "data": "x",
        "cpu": True,
        "amp": False,
        "bias": False,
        "tag": ["a", "b"],
        "out": "y",
        "files": ["a"],
        "config": {"a": [1]},
    }
    forms = argument_forms(values, DECLARED)
    assert forms.positional == ("out", "data")  # in the order of their declarations
    assert forms.forms == {name: DECLARED.forms[name] for name in values if name not in ("data", "out")}
    [note] = notes(forms, DECLARED, values)
    assert note.startswith("arguments as train.py declares them with argparse: bias (false as an empty text")
    assert "cpu (a flag)" in note


def test_true_needs_no_form_where_only_false_does() -> None:
    assert argument_forms({"bias": True}, DECLARED).are_plain


def test_the_user_decides() -> None:
    values = {"cpu": True, "amp": True, "x": ["a", "b"]}
    assert argument_forms(values, DECLARED, booleans="value", overrides={"x": "comma"}).forms == {"x": "comma"}
    assert argument_forms({"cpu": True}, NOTHING, booleans="no-flag").forms == {"cpu": "no-flag"}
    assert argument_forms({"cpu": True}, DECLARED, overrides={"cpu": "value"}).are_plain
    assert argument_forms({"b": 1, "a": 2}, NOTHING, overrides={"a": "positional", "b": "positional"}).positional == (
        "b",
        "a",
    )


def test_lists_follow_the_style() -> None:
    assert argument_forms({"x": [1, 2]}, NOTHING).forms == {"x": "list"}
    assert argument_forms({"x": [1, 2]}, NOTHING, style="equals").forms == {"x": "comma"}
    assert argument_forms({"files": [1, 2]}, DECLARED, style="equals").forms == {"files": "list"}


@pytest.mark.parametrize(
    ("value", "form", "message"),
    [
        (1, "flag", "script.hyperparameters.x must be true or false, because its form is 'flag'"),
        ([1], "value", "is a list, which its form 'value' cannot pass"),
        ({"a": 1}, "list", "is a mapping, which its form 'list' cannot pass: use 'json'"),
        ([[1]], "list", "has a list, a mapping or null within its value: only the form 'json' can pass it"),
        ({"a": None}, "value", "only the form 'json' can pass it"),
    ],
)
def test_a_value_that_its_form_cannot_pass_is_an_error(value: Any, form: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        argument_forms({"x": value}, NOTHING, overrides={"x": form})
    assert message in str(caught.value)


def test_a_form_for_an_unknown_name_is_an_error() -> None:
    with pytest.raises(InputError, match=r"script\.arguments\.forms\.cpuu is not .* Did you mean 'cpu'"):
        argument_forms({"cpu": True}, NOTHING, overrides={"cpuu": "flag"})


def test_another_separator_in_a_name_is_reported() -> None:
    values = {"log_interval": 2}
    [note] = notes(argument_forms(values, DECLARED), DECLARED, values)
    assert note == "train.py declares --log-interval, but the hyperparameter is log_interval: write log-interval"
