"""Fields of the verb `report`, and messages for wrong ones."""

from __future__ import annotations

import pytest

from experiments.running.write_report import read_request
from training.contract.errors import InputError


def test_the_default_is_the_latest_group_of_demo() -> None:
    request = read_request({"experiment": "mine.yaml"})
    assert (request.experiment, request.group, request.runs, request.format) == ("mine.yaml", None, (), "text")
    assert request.options.baseline is None
    assert request.options.allowed == frozenset()


def test_lists_are_separated_by_commas() -> None:
    request = read_request({"runs": "a, b,,c", "allow": "samples, data", "baseline": "none", "format": "markdown"})
    assert request.runs == ("a", "b", "c")
    assert request.options.allowed == {"data", "samples"}
    assert (request.options.baseline, request.format) == ("none", "markdown")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"runs": " , "}, r"runs is empty: name runs, jobs or groups, separated by commas\."),
        ({"runs": "a", "group": "b"}, r"--runs and --group cannot be combined"),
        ({"experiment": ""}, r"experiment is empty: it must be an experiment's name\."),
        ({"group": " "}, r"group is empty: it must be a group's id\."),
        ({"baseline": ""}, r"baseline is empty: it must be an arm, a job or a run\."),
        ({"overview": "ja"}, r"overview is 'ja': it must be true or false\."),
        ({"overview": "true", "baseline": "none"}, r"--overview and --baseline cannot be combined"),
        ({"format": "markdwn"}, r"format is 'markdwn': it must be one of text, markdown, json.*'markdown'"),
        (
            {"allow": "sample"},
            r"--allow contains 'sample': it may contain data, samples, target, image, machine.*'samples'",
        ),
    ],
)
def test_wrong_input_is_reported_in_one_sentence(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as error:
        read_request(fields)
    assert "\n" not in str(error.value)
