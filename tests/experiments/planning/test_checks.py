"""Checks before the trainings of a comparison: which arms are checked, and the job that checks one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.checks import checked_arms, require_checks
from experiments.planning.load import arms, load
from experiments.planning.plan import CHECK_SECONDS, check, plan
from tests.support.requests.staged import staged
from training.contract.errors import InputError


def checked(listed: str, experiment: str = "demo", **more: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    planned = arms(load(experiment, {"compare.arms": listed, "compare.baseline": "base", **more}))
    return checked_arms([(arm, staged()) for arm in planned])


@pytest.mark.parametrize(
    "fields",
    [
        "compiler: inductor",
        "attention: sdpa",
        "padding: longest",
        "bucket_lengths: [16, 64]",
        "optimizer: adamw",
        "precision: bf16",
        "dataloader_workers: 1",
        "batch_size: 8, gradient_accumulation_steps: 4",
        "batch_size: 8, compiler: inductor",
        "machine.cores: 1",
    ],
)
def test_settings_that_should_change_only_the_time_are_checked(fields: str) -> None:
    assert checked(f"{{base: {{}}, other: {{{fields}}}}}") == ({"other": ["other"]}, {})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("batch_size: 64", "batch_size changes what is learned"),
        ("batch_size: 64, weight_decay: 0.1", "batch_size and weight_decay change what is learned"),
        ("save_strategy: epoch", "save_strategy has no part in a step"),
        ("batch_size: 64, machine.interruptions_per_hour: 0.1", "batch_size changes what is learned"),
    ],
)
def test_an_arm_that_differs_in_nothing_else_is_not_checked(fields: str, reason: str) -> None:
    checks, reasons = checked(f"{{base: {{}}, other: {{{fields}}}}}")
    assert not checks
    assert reasons["other"].startswith(reason)


def test_arms_with_equal_checked_settings_share_a_check() -> None:
    listed = {
        "base": {},
        "sdpa": {"attention": "sdpa"},
        "large": {"attention": "sdpa", "batch_size": 64},
        "eager": {"attention": "eager"},
        "adapted": {"attention": "sdpa", "adapter.rank": 8},
    }
    assert checked(json.dumps(listed))[0] == {"sdpa": ["sdpa", "large"], "eager": ["eager"], "adapted": ["adapted"]}


def test_the_options_of_a_compiler_are_checked() -> None:
    listed = "{base: {compiler: inductor}, other: {compiler: inductor, compile_scope: model}}"
    assert checked(listed) == ({"other": ["other"]}, {})


def test_packing_is_checked_where_texts_stay_apart() -> None:
    listed = "{base: {packing: false}, other: {packing: true}}"
    assert checked(listed, "chat")[0] == {"other": ["other"]}
    assert checked(listed, "sst2-gpt2")[1] == {"other": "packing changes what is learned"}


def test_scripts_are_not_checked() -> None:
    planned = arms(load("torch_loop", {}))
    assert set(checked_arms([(arm, staged()) for arm in planned])[1].values()) == {"a script trains by itself"}


def test_a_single_arm_is_checked_itself() -> None:
    checks, reasons = checked("{base: {compiler: inductor}}")
    require_checks(checks, reasons)
    assert (checks, reasons) == ({"base": ["base"]}, {})


def test_a_command_with_nothing_to_check_is_refused() -> None:
    with pytest.raises(InputError, match=r"no arm differs .* \(“other”: batch_size changes what is learned\)"):
        require_checks(*checked("{base: {}, other: {batch_size: 64}}"))


def test_the_job_of_a_check_trains_no_model(tmp_path: Path) -> None:
    fields = {"target": "{metric: eval_loss, value: 0.5}", "save_strategy": "epoch", "best_metric": "eval_loss"}
    _, arm = arms(load("demo", fields))
    planned = check("demo-1", "demo", arm, 1, staged(), tmp_path)
    assert (planned.spec.name, planned.run_name) == ("demo-1-inductor-a1check", "inductor, check")
    assert (planned.tags, planned.is_baseline) == ({"platform.role": "check"}, False)
    assert (planned.spec.max_run_seconds, planned.spec.checkpoint_uri, planned.model) == (CHECK_SECONDS, None, None)
    [training, *_] = plan("demo-1", "demo", [arm], 1, [staged()], tmp_path)
    name = "TORCHINDUCTOR_CACHE_DIR"
    assert planned.spec.environment[name] != training.spec.environment[name], "the first training compiles by itself"
    arguments = planned.spec.hyperparameters
    assert (arguments["check_steps"], arguments["compiler"], arguments["batch_size"]) == (5, "inductor", 32)
    assert (arguments["save_model"], arguments["save_strategy"]) == (False, "none")
    assert not {"target_metric", "best_metric"} & set(arguments)


def test_a_shorter_time_limit_stays(tmp_path: Path) -> None:
    arm = arms(load("demo", {"machine.max_run_seconds": "300", "compare.arms": "[{}]", "compare.baseline": "none"}))[0]
    assert check("g", "demo", arm, 0, staged(), tmp_path).spec.max_run_seconds == 300
