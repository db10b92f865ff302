"""Compare observed values with the expectations in `expectations.yaml`, which record the simulated account. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("expectations.yaml")
RULES = ("equals", "matches", "includes", "only", "at_least", "at_most")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One expectation of a step."""

    value: str
    """Name of the observed value."""
    rule: str
    """`equals` a value; `matches` a whole regular expression; `includes` an item that matches each of some patterns;
    has `only` items that match one of them; `at_least` or `at_most` a number."""
    expected: Any
    source: str = ""
    """Source of the rule, where the simulated account follows a document."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An expectation that does not hold."""

    step: str
    value: str
    expected: str
    observed: Any
    source: str = ""


def differences(step: str, observed: Mapping[str, Any]) -> list[Difference]:
    """Return the expectations of a step that do not hold. A value that is missing is a difference."""
    return [
        Difference(
            step=step,
            value=each.value,
            expected=f"{each.rule.replace('_', ' ')} {each.expected!r}",
            observed=observed.get(each.value, "missing"),
            source=each.source,
        )
        for each in expectations()[step]
        if each.value not in observed or not holds(each, observed[each.value])
    ]


@cache
def expectations() -> Mapping[str, Sequence[Expectation]]:
    """Return the expectations of each step.

    An entry `{group: NAME, of: PREFIX}` stands for a group of expectations of the values `PREFIX.*`; without `of`, in
    another group, for those of the same values.
    """
    content = yaml.safe_load(FILE.read_text("utf-8"))
    return {
        step: [each for entry in entries for each in _read(entry, content["groups"])]
        for step, entries in content["steps"].items()
    }


def _read(entry: Mapping[str, Any], groups: Mapping[str, Any], prefix: str = "") -> list[Expectation]:
    if "group" in entry:
        inner = f"{prefix}{entry['of']}." if "of" in entry else prefix
        return [each for member in groups[entry["group"]] for each in _read(member, groups, inner)]
    [rule] = set(entry) & set(RULES)
    value, source = f"{prefix}{entry['value']}", entry.get("source", "")
    return [Expectation(value=value, rule=rule, expected=entry[rule], source=source)]


def holds(expectation: Expectation, observed: Any) -> bool:
    """Return whether an observed value is as expected."""
    expected = expectation.expected
    if observed is None:
        return False
    match expectation.rule:
        case "equals":
            return bool(observed == expected)
        case "matches":
            return re.fullmatch(expected, str(observed)) is not None
        case "includes":
            return all(any(re.fullmatch(pattern, str(item)) for item in observed) for pattern in expected)
        case "only":
            return all(any(re.fullmatch(pattern, str(item)) for pattern in expected) for item in observed)
        case "at_least":
            return bool(observed >= expected)
        case _:
            return bool(observed <= expected)
