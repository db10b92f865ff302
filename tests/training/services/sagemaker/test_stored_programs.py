"""Compiled programs travel from job to job through S3. Nothing about them fails a job."""

from __future__ import annotations

import hashlib

import pytest
from mlflow.entities import Run

from tests.support.aws.account import BUCKET, Account
from tests.training.services.sagemaker.conftest import Terminal

INDUCTOR = {"compiler": "inductor", "padding": "max_length", "drop_last": "true"}


def objects(account: Account) -> dict[str, bytes]:
    """Return the stored programs by key."""
    listed = account.clients["s3"].list_objects_v2(Bucket=BUCKET, Prefix="trainfare/compiled/").get("Contents", [])
    keys = [str(each["Key"]) for each in listed]
    return {key: account.clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def state(run: Run) -> str | None:
    tag: str | None = run.data.tags.get("platform.cache_state")
    return tag


def trained(terminal: Terminal, **fields: object) -> tuple[Run, str]:
    """Train once, and return the newest run and the output."""
    output = terminal("train", {**INDUCTOR, **{name.replace("__", "."): value for name, value in fields.items()}})
    assert output.code == 0, output
    return terminal.runs()[-1], output.out + output.error


@pytest.mark.slow
def test_a_second_job_of_the_setting_is_warm_and_another_setting_is_cold(terminal: Terminal, account: Account) -> None:
    first, text = trained(terminal, seed=1)
    assert state(first) == "cold"
    assert "no compiled programs are stored for this setting yet" in text
    assert "stored the compiled programs for later jobs" in text
    [(key, content)] = objects(account).items()
    second, text = trained(terminal, seed=2)
    assert state(second) == "warm"
    assert "loaded compiled programs of an earlier job" in text
    assert objects(account) == {key: content}  # a warm job stores nothing
    # Times are not compared: on a CPU, the C++ compiler runs in a warm job too.
    other, _ = trained(terminal, max_length=8)
    assert state(other) == "cold"
    assert len(objects(account)) == 2


@pytest.mark.slow
def test_a_damaged_file_is_ignored_and_replaced(terminal: Terminal, account: Account) -> None:
    first, _ = trained(terminal, seed=1)
    [(key, content)] = objects(account).items()
    middle = len(content) // 2
    damaged = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    account.clients["s3"].put_object(Bucket=BUCKET, Key=key, Body=damaged)
    second, text = trained(terminal, seed=2)
    assert [state(first), state(second)] == ["cold", "cold"]
    assert "the stored compiled programs are damaged and are ignored" in text
    stored = objects(account)[key]
    digest, _, artifacts = stored.partition(b"\n")
    assert hashlib.sha256(artifacts).hexdigest().encode() == digest
