"""Every package that is installed is pinned with hashes, and its licence is listed."""

from __future__ import annotations

import re

import yaml

from dependencies.write_locks import normalised, parse
from tests.layout.imports import ROOT
from training.job.settings.declared import ADAPTER_PACKAGES
from training.job.tasks import TASKS

LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
A, B, C = ("sha256:" + letter * 64 for letter in "abc")


def test_every_package_is_pinned_with_hashes() -> None:
    for name in LOCKS:
        pins = parse((ROOT / name).read_text("utf-8"))
        assert pins
        for pin in pins.values():
            assert pin.hashes, pin.name
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in pin.hashes), pin.name


def test_torch_has_the_hashes_of_both_builds_and_gpus_their_packages() -> None:
    torch, cpu = (parse((ROOT / f"requirements{suffix}.lock").read_text("utf-8"))["torch"] for suffix in ("", "-cpu"))
    assert cpu.version == f"{torch.version}+cpu"
    assert cpu.hashes < torch.hashes
    gpu = parse((ROOT / "requirements-gpu.lock").read_text("utf-8"))
    assert {"triton", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"} <= set(gpu)
    assert not set(gpu) & set(parse((ROOT / "requirements.lock").read_text("utf-8")))


def test_the_pins_without_hashes_are_the_same() -> None:
    """MLflow creates environments from requirements.txt, in which pip chooses the build of torch."""
    lock = parse((ROOT / "requirements.lock").read_text("utf-8"))
    unhashed = parse((ROOT / "requirements.txt").read_text("utf-8"))
    assert {pin.name: pin.version for pin in unhashed.values()} == {pin.name: pin.version for pin in lock.values()}


def test_the_licence_of_every_package_is_listed() -> None:
    lock = parse((ROOT / "requirements.lock").read_text("utf-8"))
    rows = re.findall(
        r"^\| (\S+) +\| (\S+) +\| (.+?) +\|$", (ROOT / "docs" / "licences.md").read_text("utf-8"), re.MULTILINE
    )
    listed = {normalised(name): version for name, version, _ in rows[1:]}
    assert listed == {name: pin.version for name, pin in lock.items()}
    # A person has read the licence files of these.
    assert {name for name, _, licence in rows if licence == "UNKNOWN"} == {"huey", "sagemaker-train", "skops"}


def test_the_environments_that_mlflow_creates_have_a_pinned_pip() -> None:
    """`make lock` writes the version of the lock into python_env.yaml."""
    environment = yaml.safe_load((ROOT / "python_env.yaml").read_text("utf-8"))
    pip = parse((ROOT / "requirements-dev.lock").read_text("utf-8"))["pip"]
    assert environment["build_dependencies"] == [f"pip=={pip.version}"]


def test_jobs_with_adapters_install_the_locked_peft() -> None:
    locked = parse((ROOT / "requirements.lock").read_text())["peft"].version
    assert ADAPTER_PACKAGES["lora"] == (f"peft=={locked}",)
    assert f"peft=={locked}" in ADAPTER_PACKAGES["qlora"]


def test_jobs_install_the_locked_packages_of_their_task() -> None:
    lock = parse((ROOT / "requirements.lock").read_text())
    packages = [package.split("==") for task in TASKS.values() for package in task.packages]
    assert packages
    assert all(lock[name].version == version for name, version in packages)
