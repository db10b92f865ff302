"""Limits of `CreateTrainingJob` on names, counts and lengths, checked before anything is uploaded. Pure.

Source: botocore 1.44.5, sagemaker/2017-07-24. AWS checks them only after the data and the source have been uploaded.
The local service has the same limits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, MetricDefinition

MAX_ENTRIES = {
    "hyperparameters": 100,
    "environment": 100,
    "channels": 20,
    "tags": 50,
    "metric_definitions": 40,
    "subnets": 16,
    "security_groups": 5,
    # CreateTrainingJob allows five instance types; `instance_type` is the first.
    "fallback_instance_types": 4,
}
MAX_NAME_CHARACTERS = {"hyperparameters": 256, "environment": 512, "channels": 64, "tags": 128}
MAX_VALUE_CHARACTERS = {"hyperparameters": 2500, "environment": 512, "tags": 256}
MAX_METRIC_CHARACTERS = {"name": 255, "regex": 500}
NAME_PATTERNS = {
    "hyperparameters": r"[^=\s\0]+",
    "environment": r"[a-zA-Z_][a-zA-Z0-9_]*",
    "channels": r"[A-Za-z0-9._-]+",
    "tags": r"[\w .:/=+\-@]+",
}


def check_limits(spec: JobSpec, hyperparameters: Mapping[str, str]) -> None:
    """Raise InputError for a name, a value or a count that the API would reject.

    `hyperparameters` are all hyperparameters of the request, encoded as JSON.
    """
    for name in spec.hyperparameters:
        if name.startswith("sagemaker_"):
            raise InputError(
                f"Hyperparameter '{name}' is reserved: names that start with 'sagemaker_' are set automatically."
            )
    _check_map("hyperparameters", hyperparameters)
    _check_map("environment", spec.environment)
    _check_map("channels", spec.channels)
    _check_map("tags", spec.tags)
    check_tags(spec.tags)
    for field in ("metric_definitions", "subnets", "security_groups", "fallback_instance_types"):
        _check_count(field, getattr(spec, field))
    for definition in spec.metric_definitions:
        check_metric(definition)


def check_text(field: str, name: str, value: str) -> None:
    """Raise InputError for text that cannot be passed in a command line or an environment variable."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(
            f"Value of '{name}' in {field} contains a NUL or an unpaired surrogate; it must be plain text."
        )


def check_metric(definition: MetricDefinition) -> None:
    """Raise InputError for an invalid regular expression, or one that does not have exactly one group."""
    import regex  # with the package that searches the log

    for part, limit in MAX_METRIC_CHARACTERS.items():
        _check_metric_text(definition, part, getattr(definition, part), limit)
    try:
        with warnings.catch_warnings():  # Python warns on the terminal of brackets that may mean more in the future
            warnings.simplefilter("ignore", FutureWarning)
            groups = max(re.compile(definition.regex).groups, regex.compile(definition.regex).groups)
    except (re.error, regex.error) as error:
        raise InputError(
            f"Metric '{definition.name}': '{definition.regex}' is not a regular expression: {error}."
        ) from error
    except RecursionError as error:  # hundreds of nested brackets, which Python cannot compile
        raise InputError(
            f"Metric '{definition.name}': the regular expression {definition.regex[:20]}... has too many nested "
            "brackets."
        ) from error
    if groups != 1:
        raise InputError(
            f"Metric '{definition.name}': '{definition.regex}' has {groups} groups; it must have exactly one."
        )


def check_tags(tags: Iterable[str]) -> None:
    """Raise InputError for a tag whose name AWS reserves, in any case of letters (API reference, `Tag.Key`)."""
    for name in tags:
        if name.lower().startswith("aws:"):
            raise InputError(f"Name '{name}' in tags is not allowed: AWS reserves names that start with 'aws:'.")


def _check_metric_text(definition: MetricDefinition, part: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise InputError(
            f"Metric {definition.name[:60]!r}: the {part} has {len(text)} characters; at most {limit} are allowed."
        )
    if not text or "\n" in text or "\r" in text:
        problem = "contains a line break" if text else "is empty"
        raise InputError(f"Metric {definition.name[:60]!r}: the {part} {problem}, which SageMaker does not allow.")


def _check_map(field: str, entries: Mapping[str, str]) -> None:
    _check_count(field, entries)
    for name, value in entries.items():
        if not re.fullmatch(NAME_PATTERNS[field], name) or len(name) > MAX_NAME_CHARACTERS[field]:
            rule = f"match {NAME_PATTERNS[field]} and have at most {MAX_NAME_CHARACTERS[field]} characters"
            raise InputError(f"Name {name[:100]!r} in {field} is not allowed: it must {rule}.")
        limit = MAX_VALUE_CHARACTERS.get(field)
        if limit is not None and len(value) > limit:
            raise InputError(f"Value of '{name}' in {field} has {len(value)} characters; at most {limit} are allowed.")
        check_text(field, name, value)


def _check_count(field: str, entries: Iterable[object]) -> None:
    count = len(list(entries))
    if count > MAX_ENTRIES[field]:
        raise InputError(f"There are {count} {field}; at most {MAX_ENTRIES[field]} are allowed.")
