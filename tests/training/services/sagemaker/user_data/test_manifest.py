"""A manifest is read before the start: the objects that it lists exist, and their versions identify the data."""

from __future__ import annotations

import json

import pytest

from tests.support.aws.account import Account
from training.contract.errors import InputError
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.user_data import manifest_data, manifest_keys, object_data, prefix_data

FIELD, URI = "script.channels.train", "s3://team-data/rows.manifest"
PREFIX = {"prefix": "s3://team-data/rows/"}


def write(account: Account, key: str, content: str) -> None:
    account.clients["s3"].put_object(Bucket="team-data", Key=key, Body=content.encode())


@pytest.fixture
def stored(account: Account) -> Account:
    account.clients["s3"].create_bucket(Bucket="team-data")
    for key in ("a", "b", "c", "abc"):
        write(account, f"rows/{key}", key)
    write(account, "rows.manifest", json.dumps([PREFIX, "a", "abc"]))
    return account


def test_only_the_listed_objects_count(stored: Account) -> None:
    first = manifest_data(Clients(), FIELD, URI)
    assert (first.objects, first.size_bytes) == (2, 4)
    write(stored, "rows/b", "changed")
    assert manifest_data(Clients(), FIELD, URI) == first
    write(stored, "rows/abc", "changed")
    assert manifest_data(Clients(), FIELD, URI).digest != first.digest


def test_the_order_of_a_manifest_counts_and_repeats_do_not(stored: Account) -> None:
    first = manifest_data(Clients(), FIELD, URI)
    write(stored, "rows.manifest", json.dumps([PREFIX, "a", "abc", "a"]))
    assert manifest_data(Clients(), FIELD, URI) == first
    write(stored, "rows.manifest", json.dumps([PREFIX, "abc", "a"]))
    assert manifest_data(Clients(), FIELD, URI).digest != first.digest


def test_a_missing_object_and_a_missing_manifest_are_named(stored: Account) -> None:
    write(stored, "rows.manifest", json.dumps([PREFIX, "a", "ab"]))
    with pytest.raises(InputError, match=r"lists an object that does not exist: s3://team-data/rows/ab$"):
        manifest_data(Clients(), FIELD, URI)
    with pytest.raises(InputError, match=r"bucket team-data has no object with the key 'rows\.man'$"):
        manifest_data(Clients(), FIELD, "s3://team-data/rows.man")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "3", '["a"]', '[{"prefix": 1}, "a"]', '[{"prefix": "s3://team-data/"}]', "\xff"]
)
def test_what_is_no_manifest_is_refused(content: str) -> None:
    with pytest.raises(
        InputError, match=r'is no manifest.*, which is a JSON list of \{"prefix": "s3://BUCKET/PREFIX"\}'
    ):
        manifest_keys(FIELD, URI, content.encode("latin-1"))


def test_an_augmented_manifest_is_one_object(stored: Account) -> None:
    assert object_data(Clients(), FIELD, "s3://team-data/rows/a").objects == 1
    assert prefix_data(Clients(), FIELD, "s3://team-data/rows/a").objects == 2
