"""Objects of a channel are listed before the start, and their versions identify the data."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.aws.account import Account
from training.contract.errors import AccessError, InputError
from training.contract.s3_location import Location, location_of
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.storage import StoredData, object_data, prefix_data

FIELD = "script.channels.train"


def data(account: Account, uri: str, **objects: bytes) -> StoredData:
    s3 = account.clients["s3"]
    s3.create_bucket(Bucket="team-data")
    for key, content in objects.items():
        s3.put_object(Bucket="team-data", Key=key, Body=content)
    return prefix_data(Clients(), FIELD, uri)


def message(uri: str) -> str:
    with pytest.raises((InputError, AccessError)) as caught:
        prefix_data(Clients(), FIELD, uri)
    return str(caught.value)


def test_the_version_is_that_of_keys_sizes_and_etags(account: Account) -> None:
    found = data(account, "s3://team-data/rows/", **{"rows/a#b?c": b"text", "other": b"x"})
    # The ETag of an unencrypted object that is written in one part is its MD5 (Amazon S3 API Reference, "Object").
    etag = hashlib.md5(b"text").hexdigest()
    listing = "\0".join(["rows/a#b?c", "4", f'"{etag}"', ""])
    assert found.digest == hashlib.sha256(listing.encode()).hexdigest()
    assert (found.objects, found.size_bytes, found.size_text) == (1, 4, "1 object, 0.0 MB")


def test_changed_new_and_renamed_objects_are_other_data(account: Account) -> None:
    uri = "s3://team-data/rows/"
    first = data(account, uri, **{"rows/a": b"1"})
    s3 = account.clients["s3"]
    s3.put_object(Bucket="team-data", Key="rows/a", Body=b"1")
    assert prefix_data(Clients(), FIELD, uri) == first
    digests = {first.digest}
    for key, body in {"rows/a": b"2", "rows/b": b"1"}.items():
        s3.put_object(Bucket="team-data", Key=key, Body=body)
        digests.add(prefix_data(Clients(), FIELD, uri).digest)
    s3.delete_object(Bucket="team-data", Key="rows/a")
    digests.add(prefix_data(Clients(), FIELD, uri).digest)
    assert len(digests) == 4


def test_a_folder_without_its_slash_is_refused_if_it_takes_more(account: Account) -> None:
    data(account, "s3://team-data/abc/", **{"abc/x": b"1", "abc.complete": b"1"})
    assert message("s3://team-data/abc") == (
        "script.channels.train 's3://team-data/abc' also takes other keys that begin with it, such as 'abc.complete': "
        "end a folder with a slash, or rename the others"
    )
    for prefix, objects in (("/abc/", 1), ("/abc.c", 1), ("", 2)):
        assert prefix_data(Clients(), FIELD, f"s3://team-data{prefix}").objects == objects


def test_what_is_missing_is_refused_in_one_sentence(account: Account) -> None:
    data(account, "s3://team-data/rows/", **{"rows/a": b"1", "empty/": b""})
    assert message("s3://no-such-bucket/x") == (
        "script.channels.train 's3://no-such-bucket/x': bucket no-such-bucket does not exist"
    )
    for key in ("row/", "empty/"):
        assert message(f"s3://team-data/{key}") == (
            f"script.channels.train 's3://team-data/{key}': no object of bucket team-data has a key that begins with "
            f"'{key}', and SageMaker starts no job with an empty channel"
        )


def test_a_bucket_of_another_region_or_without_access_is_refused(account: Account) -> None:
    location = {"LocationConstraint": "eu-west-1"}
    account.clients["s3"].create_bucket(Bucket="far-data", CreateBucketConfiguration=location)
    assert "bucket far-data is in eu-west-1, but the jobs run in us-east-1; SageMaker reads only" in message(
        "s3://far-data/rows/"
    )
    account.add_foreign_bucket("their-data")
    text = message("s3://their-data/rows/")
    assert text.startswith("script.channels.train 's3://their-data/rows/': access is denied")
    assert "docs/aws.md lists the permissions" in text


def test_a_location_keeps_every_letter_of_its_key_and_needs_a_possible_bucket() -> None:
    for uri in ("s3://", "s3:///x", "s3://Bucket/x", "s3://ab/x", "s3://-abc/x"):
        with pytest.raises(
            InputError, match=r"^script\.channels\.train 's3://.*' must be s3://BUCKET/KEY; a bucket has"
        ):
            location_of(FIELD, uri)
    assert location_of(FIELD, "s3://team-data/a//b#c?d=%20e") == Location("team-data", "a//b#c?d=%20e")
    assert location_of(FIELD, "s3://team-data").uri == "s3://team-data/"
    with pytest.raises(InputError, match=r"^script\.channels\.train has 1,034 characters; SageMaker allows 1,024"):
        location_of(FIELD, "s3://team-data/" + "x" * 1_019)


def test_a_manifest_is_one_object(account: Account) -> None:
    data(account, "s3://team-data/rows/", **{"rows/a": b"1", "rows/abc": b"2"})
    assert prefix_data(Clients(), FIELD, "s3://team-data/rows/").objects == 2
    assert object_data(Clients(), FIELD, "s3://team-data/rows/a").objects == 1
    with pytest.raises(InputError, match=r"bucket team-data has no object with the key 'rows/b'$"):
        object_data(Clients(), FIELD, "s3://team-data/rows/b")
