"""Files of compiled programs: their names, and every way in which they cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import BertConfig

from tests.support.aws.account import BUCKET, Account
from tests.support.job.arguments import job_argv
from training.job.data.padding import Shape
from training.job.loop import compile_phase
from training.job.loop.compile_phase import StoredPrograms, key_of, open_stored_programs, setting_of
from training.job.processes.reporting import Events
from training.job.settings.arguments import parse

ARGUMENTS = asdict(parse(job_argv()))
URI = f"s3://{BUCKET}/trainfare/compiled/image/key"


class Noted(Events):
    """Events that keep their messages."""

    def __init__(self) -> None:
        super().__init__(enabled=False)
        self.messages: list[str] = []

    def emit(self, kind: str, **fields: Any) -> None:
        self.messages.append(fields["message"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A small program that this process has compiled, in a cache of its own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        torch.compile(lambda x: x * 2 + 1)(torch.ones(8))
        yield


def key(config: Mapping[str, Any] = {}, shapes: tuple[Shape, ...] = (), *, dynamic: bool = False) -> str:
    model = SimpleNamespace(config=BertConfig(**{"_name_or_path": "/a", **config}))
    return key_of(setting_of(model, shapes or (Shape(4, 16, True),), dynamic, ARGUMENTS, "fp32"))


def test_a_file_belongs_to_one_model_shape_setting_process_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        key(),
        key({"hidden_size": 24, "num_attention_heads": 2}),
        key(shapes=(Shape(8, 16, True),)),
        key(shapes=(Shape(4, 32, True),)),
        key(dynamic=True),
    ]
    # The model's folder does not count, and neither do lengths under dynamic shapes.
    assert key({"_name_or_path": "/opt/ml/input/data/model"}) == key()
    assert key(shapes=(Shape(4, 32, True),), dynamic=True) == key(shapes=(Shape(4, 16, True),), dynamic=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        others.append(key())
    monkeypatch.setattr(torch, "__version__", "2.7.0")
    others.append(key())
    assert len(set(others)) == len(others) == 8


def test_a_torch_that_cannot_pack_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Noted()
    assert open_stored_programs({}, events, {}) is None
    monkeypatch.delattr(torch.compiler, "save_cache_artifacts")
    assert open_stored_programs({}, events, {compile_phase.URI_VARIABLE: "s3://bucket/prefix"}) is None
    assert events.messages == [f"torch {torch.__version__} cannot store compiled programs; torch 2.7 and later can"]


@pytest.fixture
def in_account(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    for name, value in account.variables.items():
        monkeypatch.setenv(name, value)
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    return account


@pytest.mark.usefixtures("compiled")
def test_a_file_or_bucket_that_cannot_be_used_is_a_note(in_account: Account) -> None:
    events = Noted()
    in_account.clients["s3"].put_object(Bucket=BUCKET, Key="trainfare/compiled/image/key", Body=b"hello")
    StoredPrograms(URI, "", events).load()
    StoredPrograms(f"{URI}/missing", "", events).load()
    stored = StoredPrograms("s3://no-such-bucket/key", "", events)
    stored.load()
    stored.save("cold")
    unreadable, missing, *of_bucket = events.messages
    assert "cannot" in unreadable
    assert "no compiled programs are stored for this setting yet" in missing
    assert [note.partition(":")[0] for note in of_bucket] == [
        "the stored compiled programs cannot be loaded",
        "the compiled programs cannot be stored",
    ]
    assert all("NoSuchBucket" in note for note in of_bucket)


@pytest.mark.usefixtures("compiled")
def test_only_what_is_new_is_stored_and_only_on_the_first_host(
    in_account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredPrograms(URI, "", Noted())
    stored.save("warm")
    with monkeypatch.context() as on_second_host:
        on_second_host.setenv("RANK", "8")
        on_second_host.setenv("LOCAL_RANK", "0")
        stored.save("cold")
    assert "Contents" not in in_account.clients["s3"].list_objects_v2(Bucket=BUCKET)


@pytest.mark.usefixtures("compiled")
def test_a_partly_warm_job_replaces_the_file(in_account: Account) -> None:
    StoredPrograms(URI, "alias/key", Noted()).save("partial")
    stored = in_account.clients["s3"].get_object(Bucket=BUCKET, Key="trainfare/compiled/image/key")
    assert stored["ServerSideEncryption"] == "aws:kms"
    assert torch.compiler.load_cache_artifacts(stored["Body"].read()) is not None
