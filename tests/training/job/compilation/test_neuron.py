"""Neuron's compiler without Trainium: the check for torch_xla, and the state of its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compilation import compilers, neuron_programs
from compilation.neuron_programs import CACHE_VARIABLE, programs, state
from tests.support.aws.account import BUCKET, Account

VERSION = "neuronxcc-2.8.0.25+a3ad0f342"
FIRST, SECOND = "MODULE_198775565831884870+d41d8cd9", "MODULE_12486829708343293975+d41d8cd9"


def test_a_job_without_torch_xla_fails_with_one_sentence(job: Any) -> None:
    ended = job.run(compiler="neuron", padding="max_length")
    assert ended.code == 1
    [failure] = ended.events("failure")
    assert failure["message"].startswith(
        "compiler neuron needs the package torch_xla, which is not installed: use an image with torch-neuronx"
    )


def test_automatic_settings_are_those_of_trainium() -> None:
    neuron = compilers.Neuron()
    assert (neuron.device_kind, neuron.auto_precision, neuron.auto_attention) == ("xla", "bf16", "eager")
    other = compilers.NoCompiler()
    assert (other.auto_precision, other.auto_attention) == ("auto", "auto")


def test_a_folder_lists_the_programs_that_are_complete(tmp_path: Path) -> None:
    environment = {CACHE_VARIABLE: str(tmp_path)}
    assert programs(environment) == frozenset()
    for name in (FIRST, SECOND):
        (tmp_path / VERSION / name).mkdir(parents=True)
        (tmp_path / VERSION / name / "model.hlo_module.pb.lock").touch()
    assert programs(environment) == frozenset()
    (tmp_path / VERSION / FIRST / neuron_programs.PROGRAM_FILE).touch()
    assert programs(environment) == {FIRST}


def test_a_prefix_in_s3_lists_the_programs_that_are_complete(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in account.variables.items():
        monkeypatch.setenv(name, value)
    store = account.clients["s3"]
    store.create_bucket(Bucket=BUCKET)
    for key in (
        f"trainfare/compiled/image/{VERSION}/{FIRST}/model.neff",
        f"trainfare/compiled/image/{VERSION}/{FIRST}/model.done",
        f"trainfare/compiled/image/{VERSION}/{SECOND}/model.hlo_module.pb.lock",
        f"trainfare/compiled/image2/{VERSION}/{SECOND}/model.neff",
    ):
        store.put_object(Bucket=BUCKET, Key=key, Body=b"")
    assert programs({CACHE_VARIABLE: f"s3://{BUCKET}/trainfare/compiled/image"}) == {FIRST}
    assert programs({CACHE_VARIABLE: "s3://no-such-bucket/image"}) == frozenset()


@pytest.mark.parametrize(
    ("before", "after", "used", "expected"),
    [
        ((), (), 0, "cold"),
        ((), (FIRST, SECOND), 2, "cold"),
        ((FIRST, SECOND), (FIRST, SECOND), 2, "warm"),
        ((FIRST,), (FIRST, SECOND), 2, "partial"),
        # The cache has programs, but none that this job could use.
        ((FIRST,), (FIRST, SECOND), 1, "cold"),
        # The cache can be read but not written, so the programs that were compiled are not in it.
        ((), (), 2, "cold"),
    ],
)
def test_the_state_follows_from_new_programs(
    before: tuple[str, ...], after: tuple[str, ...], used: int, expected: str
) -> None:
    assert state(frozenset(before), frozenset(after), used) == expected
