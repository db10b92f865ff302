"""Arms: their fields, their labels, pushes to the Hub, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.load import arms, load, without_pushes
from experiments.planning.plan import calibration, group_key
from tests.support.requests.building import staged
from tests.support.requests.refused import refused


def with_arms(text: str, **more: str) -> dict[str, str]:
    return {"compare.arms": text, "compare.baseline": "", **more}


def test_the_demo_compares_none_with_inductor() -> None:
    none, inductor = arms(load("demo", {}))
    assert (none.label, none.is_baseline, none.experiment.compiler) == ("none", True, "none")
    assert (inductor.label, inductor.is_baseline, inductor.experiment.compiler) == ("inductor", False, "inductor")
    assert none.experiment.data == inductor.experiment.data
    assert [arm.is_baseline for arm in arms(load("demo", {"compare.baseline": "inductor"}))] == [False, True]


def test_published_rates_are_scaled_to_each_batch() -> None:
    # As the golden requests of the reference have it: 3e-5 at 32, for 28 and for 52.
    native, compiled = arms(load("squad-albert", {}))
    assert [native.experiment.compiler, compiled.experiment.compiler] == ["none", "inductor"]
    assert native.experiment.learning_rate == pytest.approx(2.625e-5)
    assert compiled.experiment.learning_rate == pytest.approx(4.875e-5)
    rates = [arm.experiment.learning_rate for arm in arms(load("emotion-bert", {}))]
    assert rates == pytest.approx([3e-5, 3e-5, 4e-5])
    [arm] = arms(load("bert-large-squad-dp", {"compare.arms": "[{compiler: none}]"}))
    assert (arm.experiment.learning_rate, arm.experiment.global_batch_size) == (5e-5, 8)


def test_an_override_applies_to_arms_that_do_not_set_the_field() -> None:
    text = "[{compiler: none, batch_size: 64}, {compiler: inductor}]"
    first, second = arms(load("demo", with_arms(text, batch_size="16")))
    assert (first.experiment.batch_size, second.experiment.batch_size) == (64, 16)
    assert first.experiment.learning_rate == pytest.approx(6e-4)
    assert [first.label, second.label] == ["none, batch 64", "inductor, batch 16"]


def test_all_arms_evaluate_with_the_same_batch_size() -> None:
    sizes = {arm.experiment.eval_batch_size for arm in arms(load("squad-albert", {}))}
    assert sizes == {28}
    assert {arm.experiment.eval_batch_size for arm in arms(load("squad-albert", {"eval_batch_size": "8"}))} == {8}
    own = {"compare.arms": "[{eval_batch_size: 4}, {eval_batch_size: 8}]"}
    assert [arm.experiment.eval_batch_size for arm in arms(load("squad-albert", own))] == [4, 8]


def test_labels_say_only_what_differs_from_the_baseline() -> None:
    text = "[{base_learning_rate: 1e-4}, {base_learning_rate: 3e-5}, {bucket_lengths: [16, 64], machine.cores: 1}]"
    planned = arms(load("demo", with_arms(text)))
    assert [arm.label for arm in planned] == [
        "baseline",  # its whole label is too long for a name
        "base learning rate 3e-05",
        "base learning rate 0.0003, bucket lengths 16-64, cores 1",
    ]
    text = "[{}, {batch_size: 64}, {compiler: inductor}, {compiler: inductor, batch_size: 64}]"
    own = with_arms(text)
    assert [arm.label for arm in arms(load("demo", own))] == [
        "none, batch 32",
        "batch 64",
        "inductor",
        "inductor, batch 64",
    ]
    for baseline in ("inductor, batch 64", "none, batch 64", "batch 64"):  # whole labels and those shown
        assert sum(arm.is_baseline for arm in arms(load("demo", own | {"compare.baseline": baseline}))) == 1
    last = arms(load("demo", own | {"compare.baseline": "inductor, batch 64"}))
    assert [arm.label for arm in last] == ["none, batch 32", "none", "batch 32", "inductor, batch 64"]
    # Options of inductor are not in the labels of other compilers.
    text = "[{compiler: none}, {compiler: inductor, compile_scope: model}, {compiler: inductor}]"
    labels = [arm.label for arm in arms(load("demo", with_arms(text)))]
    assert labels == ["none", "inductor, compile scope model", "inductor, compile scope layers"]


def test_arms_have_names_in_a_mapping_and_in_a_list() -> None:
    for text in ("{full: , large-batch: {batch_size: 64}}", "[{name: full}, {name: large-batch, batch_size: 64}]"):
        full, large = arms(load("demo", with_arms(text, **{"compare.baseline": "large-batch"})))
        assert (full.label, full.is_baseline, full.experiment.batch_size) == ("full", False, 32)
        assert (large.label, large.is_baseline, large.experiment.batch_size) == ("large-batch", True, 64)
        assert full.fields == large.fields == ("batch_size",)
    one, other = arms(load("demo", with_arms("[{compiler: inductor, name: none}, {}]")))
    assert [one.label, other.label] == ["none", "none (2)"]


def test_an_override_sets_a_field_of_one_arm(tmp_path: Path) -> None:
    names = {"compare.arms.v1.5.data.train_rows": "60", "compare.arms.large.max_steps": "7"}
    file = tmp_path / "own.yaml"
    text = Path("experiments/demo.yaml").read_text().partition("\ncompare:")[0]
    for of_arms in (
        "{v1.5: {data: {train_rows: 50}}, large: {batch_size: 64, epochs: 2}}",
        "[{name: v1.5, data.train_rows: 50}, {name: large, batch_size: 64, epochs: 2}]",
    ):
        file.write_text(f"{text}\ncompare:\n  arms: {of_arms}\n")
        first, large = arms(load(str(file), names))
        assert (first.experiment.data and first.experiment.data.train_rows) == 60
        assert (large.experiment.batch_size, large.experiment.max_steps, large.experiment.epochs) == (64, 7, None)
        for name, sentence in (
            ("compare.arms.lrge.max_steps", "compare.arms has no arm of this name. The named arms are v1.5, large."),
            ("compare.arms.large.max_stps", "Did you mean 'max_steps'?"),
        ):
            assert sentence in refused(str(file), {name: "7"})
    assert "This experiment has no named arms." in refused("demo", {"compare.arms.none.batch_size": "8"})


def test_arms_on_machines_are_labelled_by_type_and_count() -> None:
    types = "[{machine.instance_type: ml.g5.xlarge}, {machine.instance_type: ml.g5.xlarge, machine.instance_count: 2}]"
    there = {"service": "sagemaker", "machine.instance_type": "ml.g4dn.xlarge"}
    assert [arm.label for arm in arms(load("demo", with_arms(types) | there))] == ["1 machine", "2 machines"]
    types = "[{}, {machine.instance_type: ml.g5.xlarge, machine.instance_count: 2}]"
    labels = [arm.label for arm in arms(load("demo", with_arms(types) | there))]
    assert labels == ["ml.g4dn.xlarge, 1 machine", "ml.g5.xlarge, 2 machines"]


def test_the_first_overridden_arm_is_the_baseline() -> None:
    """The baseline in the file names one of the file's own arms."""
    marked = [arm.is_baseline for arm in arms(load("demo", {"compare.arms": "[{batch_size: 8}, {batch_size: 16}]"}))]
    assert marked == [True, False]


def test_an_arm_is_merged_into_nested_mappings() -> None:
    text = "[{data: {train_rows: 500}}, {data.train_rows: 1000}]"
    first, second = arms(load("demo", with_arms(text)))
    assert (first.experiment.data.train_rows, first.experiment.data.validation_rows) == (500, 400)
    assert second.experiment.data.train_rows == 1000


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (with_arms("[{compiler: none}, {compiler: none}]"), "compare.arms[1] is the same as compare.arms[0]: "),
        (with_arms("[{seed: 1}, {seed: 2}]"), "compare.arms[0] must not set seed: it must be the same for every arm"),
        (with_arms("[1]"), "compare.arms[0] must be a mapping, not 1"),
        (with_arms("{a: 1}"), "compare.arms.a must be a mapping of fields, not 1"),
        (with_arms("{a: {}, b: {batch_size: 32}}"), "compare.arms.b is the same as compare.arms.a: "),
        (with_arms("{a: {seed: 1}}"), "compare.arms.a must not set seed: it must be the same for every arm"),
        (with_arms("{a b: {}}"), "the name 'a b': a name has at most 40 letters, digits, '-', '_' and '.', begins"),
        (with_arms(f"{{{41 * 'a'}: {{}}}}"), f"compare.arms has the name '{41 * 'a'}': "),
        (with_arms("[{name: a}, {name: a, batch_size: 8}]"), "compare.arms has the name 'a' twice"),
        (with_arms("{null: {}}"), "compare.arms has the name 'null': "),
        (with_arms("{a: {}, baseline: {batch_size: 8}}"), "compare.arms.baseline is not the baseline: set"),
        (
            {"compare.baseline": "inductr"},
            "compare.baseline 'inductr' is not one of the arms 'none', 'inductor'. Did you",
        ),
    ],
)
def test_an_invalid_arm_is_refused(overrides: dict[str, str], sentence: str) -> None:
    assert sentence in refused("demo", overrides)


PUSH = {"push_to_hub.repository": "someone/a-model"}


def test_an_invalid_push_is_refused() -> None:
    for name, text, also in (
        ("push_to_hub.repository", "no-owner", "no-owner"),
        ("save_model", "false", "push_to_hub"),
        ("push_to_hub.repositry", "x", "push_to_hub.repository"),
        ("compare.arms", '[{"compiler": "none"}, {"push_to_hub": null}]', "push_to_hub"),
    ):
        sentence = refused("demo", {**PUSH, "save_model": "true", name: text})
        assert name in sentence
        assert also in sentence


def test_a_comparison_pushes_nothing_and_logs_it() -> None:
    output: list[str] = []
    without_push = without_pushes(arms(load("demo", {**PUSH, "save_model": "true"})), output.append)
    assert [arm.experiment.push_to_hub for arm in without_push] == [None] * len(without_push)
    assert len(output) == 1
    assert without_pushes(arms(load("demo", {})), output.append) == arms(load("demo", {}))
    assert len(output) == 1


def test_an_arm_chooses_its_batch_size_from_the_range_of_the_sweep(tmp_path: Path) -> None:
    auto = {"compare.arms": "{mine: {batch_size: 32}, auto: {batch_size: auto}}", "compare.baseline": "mine"}
    planned = arms(load("demo", auto))
    assert [arm.batch_sizes for arm in planned] == [(), (8, 16, 32, 64, 128, 256)]
    chosen = planned[1].with_batch_size(64)
    # 3e-4 at 32 is scaled linearly.
    assert (chosen.batch_sizes, chosen.experiment.learning_rate) == ((), pytest.approx(6e-4))
    wide = arms(load("demo", {**auto, "sweep.batch_sizes": "2..4000"}))
    assert len({group_key("compare", "demo", each, 1, []) for each in (planned, wide)}) == 2
    timed = calibration("g", "demo", wide[1], 1, staged(tmp_path, "1,000 rows", has_model=False), tmp_path)
    assert (timed.spec.name, timed.arm) == ("g-none-a1auto", "auto, calibration")
    assert timed.spec.hyperparameters["calibration_batch_sizes"] == "2,4,8,16,32,64,128,256,512"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"max_steps": "9"}, "batch_size 'auto' needs epochs, not max_steps"),
        ({"calibration.batch_sizes": "8,16"}, "batch_size 'auto' and calibration cannot be combined"),
        ({"sharding": "fsdp2", "machine.devices": "2"}, "calibration and sharding 'fsdp2' cannot be combined"),
        ({"sweep.batch_sizes": "9..15"}, "sweep.batch_sizes 9..15 contains none of the powers of two"),
    ],
)
def test_auto_is_refused_where_no_size_can_be_chosen(overrides: dict[str, str], message: str) -> None:
    assert message in refused("demo", {"batch_size": "auto", **overrides})
    assert "batch_size 'auto' requires a task" in refused("torch_loop", {"batch_size": "auto"})
