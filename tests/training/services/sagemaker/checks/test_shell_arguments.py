"""Arguments arrive although SageMaker's toolkit quotes nothing for its shell."""

from __future__ import annotations

import pytest

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, is_shell_safe
from training.services.sagemaker.checks.shell_arguments import shell_safe_hyperparameters


def spec(**fields: object) -> JobSpec:
    values = {"name": "j", "channels": {}, "source_uri": "file:///s", "output_uri": "file:///o", "hyperparameters": {}}
    return JobSpec.model_validate({**values, **fields})


@pytest.mark.parametrize(
    "word", ["", "a b", "$HOME", "it's", "a;b", "(x)", "[1, 2]", "*", "~", "a\nb", "é", "a&b", '"']
)
def test_a_shell_changes_these_words(word: str) -> None:
    assert not is_shell_safe(word)


@pytest.mark.parametrize("word", ["3e-05", "org/model-v1.0", "a=b", "32,64", "--name", "100%", "True", "user@host:1"])
def test_a_shell_leaves_these_words_as_they_are(word: str) -> None:
    assert is_shell_safe(word)


def test_the_name_of_a_staged_model_is_only_a_label() -> None:
    staged = spec(hyperparameters={"model": "/my models/it's (1)", "epochs": 2}, channels={"model": "file:///m"})
    assert shell_safe_hyperparameters(staged) == {"model": "/my_models/it_s__1_", "epochs": 2}
    with pytest.raises(InputError, match="model_revision 'a b' cannot be passed on SageMaker"):
        shell_safe_hyperparameters(spec(hyperparameters={"model_revision": "a b"}))
