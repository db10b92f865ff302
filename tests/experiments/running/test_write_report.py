"""Wrong options of the verb `report`."""

from __future__ import annotations

import pytest

from experiments.running.write_report import report
from training.contract.errors import InputError


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"runs": " , "}, r"runs is empty: name runs, jobs or groups, separated by commas\."),
        ({"runs": "a", "group": "b"}, r"--runs and --group cannot be combined"),
        ({"overview": "true", "baseline": "none"}, r"--overview and --baseline cannot be combined"),
        (
            {"allow": "sample"},
            r"--allow contains 'sample': it may contain data, samples, target, image, machine.*'samples'",
        ),
    ],
)
def test_wrong_input_is_reported_in_one_sentence(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as error:
        report(fields)
    assert "\n" not in str(error.value)
