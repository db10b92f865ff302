"""Secrets are recognized by name and pattern, and the words of language models are not."""

from __future__ import annotations

from typing import Any

import pytest

from training.contract.plain_text import is_likely_secret

RANDOM = "a8Kd0" * 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hub_token", "abc"),
        ("some_token", RANDOM),
        ("password", "x"),
        ("WANDB_API_KEY", "abc"),
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("x", "hf_" + "a" * 34),
        ("x", ["fine", "hf_" + "a" * 34]),
        ("x", {"api_key": "abc"}),
        ("url", "https://me:s3cret@example.org/x"),
    ],
)
def test_a_secret_is_recognized(name: str, value: Any) -> None:
    assert is_likely_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokenizer_name", "bert-base-uncased"),
        ("pad_token", "<pad>"),
        ("placeholder_token", "<cat-toy>"),
        ("use_auth_token", True),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ("token", "$model"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/opt/ml/input/data/key/key.json"),
        ("text_key", "sentence1"),
        ("url", "https://github.com/org/name@v1"),
    ],
)
def test_an_ordinary_value_is_not(name: str, value: Any) -> None:
    assert not is_likely_secret(name, value)
