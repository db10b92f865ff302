"""Fields that do not fit the compiler, and options of another compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.load import arms, load
from experiments.planning.plan import hyperparameters
from training.contract.errors import InputError

GPUS = {"service": "sagemaker", "machine.instance_type": "ml.p4d.24xlarge", "machine.devices": "8"}
TRCOMP = {**GPUS, "compiler": "trcomp"}
UNPADDED = {"padding": "none", "compare.arms": "[{}]"}
SHARDED = {"sharding": "fsdp2"}
LORA, FROZEN = {"adapter.rank": "8"}, {"adapter.method": "frozen"}


def test_options_need_their_compiler() -> None:
    experiment = load("demo", {"compiler": "inductor", "compile_mode": "max-autotune", "compile_dynamic": "false"})
    assert (experiment.compile_mode, experiment.compile_dynamic) == ("max-autotune", False)


def test_another_compiler_drops_the_options_of_inductor(tmp_path: Path) -> None:
    """An arm of a comparison without a compiler is the control of arms with its options."""
    path = tmp_path / "mine.yaml"
    text = (
        Path("experiments/demo.yaml")
        .read_text()
        .replace("precision: auto", "compiler: inductor\ncompile_mode: max-autotune")
    )
    path.write_text(text)
    assert load(str(path), {"compiler": "none"}).compile_mode == "default"


def test_sharding_fits_the_compilers_of_gpus() -> None:
    experiment = load("demo", {"sharding": "fsdp2", "compiler": "inductor", "machine.devices": "2"})
    assert hyperparameters(experiment, (64,))["sharding"] == "fsdp2"
    assert hyperparameters(load("demo", {}), (64,))["sharding"] == "none"
    assert load("demo", UNPADDED).padding == "none"


def test_an_adapter_is_a_section_of_flat_arguments() -> None:
    fields = {"adapter.rank": "8", "adapter.targets": "query,value", "compare.arms": "[{}, {adapter: null}]"}
    one, full = (hyperparameters(arm.experiment, ()) for arm in arms(load("demo", fields)))
    assert {name: value for name, value in one.items() if name.startswith("adapter")} == {
        "adapter_method": "lora", "adapter_rank": 8, "adapter_alpha": 32.0, "adapter_dropout": 0.05,
        "adapter_targets": "query,value", "adapter_save": "merged",
    }  # fmt: skip
    assert full == hyperparameters(load("demo", {}), ())
    with pytest.raises(InputError, match=r"unknown field 'lora_r' .*\. Did you mean 'adapter\.rank'\?"):
        load("demo", {"lora_r": "8"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"adapter.rank": "0"}, "adapter.rank must be greater than or equal to 1, not 0"),
        ({"adapter.targets": "3"}, "adapter.targets[0] must be text, not 3"),
        (
            TRCOMP,
            "compiler 'trcomp' requires a script: its images are older than our tasks need; experiments/published/",
        ),
        ({**GPUS, "machine.launcher": "smddp"}, "machine.launcher 'smddp' requires a script: its images are older"),
        ({**LORA, **SHARDED}, "adapter and sharding 'fsdp2' cannot be combined: use 'none'"),
        ({**LORA, "weights": "random"}, "adapter needs pretrained weights, which it leaves as they are: set model"),
        ({**FROZEN, "task": "causal-lm"}, "trains a new head, and causal-lm adds none: use 'lora'"),
        ({"adapter.method": "qlora"}, "adapter.save must be 'adapter' with method 'qlora'"),
        ({"compile_mode": "max-autotune"}, "compile_mode requires compiler 'inductor'; the compiler is 'none'"),
        ({**UNPADDED, "compiler": "inductor"}, "padding 'none' and compiler 'inductor' cannot be combined: the number"),
        ({**SHARDED, "compiler": "inductor", "compile_scope": "model"}, "needs compile_scope 'layers', not 'model'"),
        (
            {**SHARDED, "compiler": "inductor", "compile_mode": "reduce-overhead"},
            "does not work with compile_mode 'reduce-overhead', which records CUDA graphs",
        ),
        (
            {**SHARDED, **GPUS, "machine.image": "{pytorch: 2.5}"},
            "needs torch 2.6 or later, but machine.image.pytorch is 2.5",
        ),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        load("demo", fields)
    assert message in str(error.value)
