"""Test the fields of a sweep and the refusal of invalid ones, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.load import load
from experiments.schema.experiment import script_hyperparameters
from experiments.sweeping.sweep_plan import SweepPlan, full_names, label, plan_sweep, timed_sizes
from experiments.sweeping.sweep_worker import winner
from judging.design import Design
from sweeps.search_space import Point
from sweeps.trials import Quality
from training.contract.errors import InputError

TO_TARGET = {"target.metric": "eval_loss", "target.value": "0.5"}


def swept(**overrides: str) -> SweepPlan:
    return plan_sweep(load("demo", full_names({**TO_TARGET, **overrides})))


def refused(experiment: str = "demo", **overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        plan_sweep(load(experiment, full_names(overrides)))
    return str(caught.value)


def test_a_trial_ends_at_the_target_and_is_evaluated_by_samples() -> None:
    # 1,500 rows once, ten evaluations: every 150 samples, which are 3.1 steps of 48.
    trial = swept(batch_sizes="8..64", evaluations="10").trial("inductor", Point(48, 2.0), 1500).experiment
    assert (trial.compiler, trial.batch_size, trial.learning_rate_multiplier) == ("inductor", 48, 2.0)
    assert trial.target is not None
    assert trial.target.stop
    assert (trial.eval_strategy, trial.eval_samples, trial.eval_batch_size) == ("samples", 150, 32)
    # 3e-4 at 32, linear to 48, times 2.
    assert trial.learning_rate == pytest.approx(9e-4)
    # The experiment's own evaluations are kept.
    sweep = swept(eval_strategy="samples", eval_samples="400")
    assert sweep.trial("none", Point(8), 1500).experiment.eval_samples == sweep.evaluated_every(1500) == 400


def test_scaling_rules_can_be_searched() -> None:
    sweep = swept(batch_sizes="8..32", learning_rate_scalings="[linear, sqrt]")
    # 3e-4 at 32, the experiment's own batch size. A quarter of it, or half of it, at 8.
    rates = {point: sweep.trial("none", point, 1500).experiment.learning_rate for point in sweep.space.points}
    eight = {rule: rates[Point(8, 1.0, rule)] for rule in ("linear", "sqrt")}
    assert eight == {"linear": pytest.approx(7.5e-5), "sqrt": pytest.approx(1.5e-4)}
    assert sweep.base_point == Point(32, 1.0, "linear")
    assert [point for point in rates if point.batch_size == 32] == [sweep.base_point]
    assert label("none", Point(8, 1.0, "sqrt")) == "none, batch 8, sqrt"


def test_batch_sizes_have_a_default_range() -> None:
    assert swept().space.batch_sizes == (8, 16, 32, 64, 128, 256)
    assert swept(batch_sizes="8..16").space.batch_sizes == (8, 16)


def test_only_repeats_of_the_winner_save_their_models() -> None:
    for save_model in (True, False):
        sweep = swept(save_model=str(save_model).lower(), save_strategy="epoch")
        kept = [sweep.trial("none", Point(8), 1500, is_whole=whole).experiment.save_model for whole in (False, True)]
        assert kept == [False, save_model]
    trial = sweep.trial("none", Point(8), 1500).experiment
    assert (trial.push_to_hub, trial.save_strategy) == (None, "none")


def test_steps_and_epochs_are_converted_to_samples() -> None:
    # 100 steps of 32 are 3,200 samples: 50 steps of 64, and 67 of 48.
    sweep = swept(max_steps="100")
    assert sweep.samples(1500) == 3200
    assert sweep.trial("none", Point(64), 1500).experiment.max_steps == 50
    assert sweep.trial("none", Point(48), 1500).experiment.max_steps == 67
    assert swept(epochs="1.5").samples(1500) == 2250


def test_trials_for_throughput_are_probes_and_repeats_are_complete() -> None:
    sweep = swept(objective="steady_samples_per_second")
    assert sweep.trial("none", Point(8), 1500).experiment.probe is not None
    assert sweep.trial("none", Point(8), 1500, is_whole=True).experiment.probe is None
    bounded = plan_sweep(load("demo", {"sweep.objective": "steady_samples_per_second", "sweep.worse_by": "0.02"}))
    assert bounded.trial("none", Point(8), 1500).experiment.probe is None


def test_repeats_run_in_waves_except_for_throughput() -> None:
    design = swept(**{"compare.least_gain": "0.1", "compare.when_disturbed": "repeat"}).design
    assert design == Design(looks=(3, 5, 7, 9), least_gain=0.1)
    few = swept(repeats="4")
    assert few.design == Design(looks=(3, 4))
    assert (few.repeats, swept(repeats="0").design) == (4, None)
    rate = swept(objective="steady_samples_per_second")
    assert (rate.design, rate.repeats) == (None, 3)


def test_only_throughput_is_calibrated_unless_asked() -> None:
    rate = swept(objective="steady_samples_per_second")
    assert (swept().calibration_seconds, rate.calibration_seconds) == (0, 1)
    assert swept(calibration_seconds="2").calibration_seconds == 2
    assert swept(objective="steady_samples_per_second", calibration_seconds="0").calibration_seconds == 0


def test_the_baseline_is_the_experiment_itself_under_the_first_compiler() -> None:
    sweep = swept(compilers="inductor,none", batch_size="16")
    assert sweep.baseline == ("inductor", Point(16))
    assert sweep.trial("inductor", Point(16), 1500).is_baseline
    assert not sweep.trial("none", Point(16), 1500).is_baseline


def test_options_of_inductor_are_compilers_of_their_own() -> None:
    """Inductor without options has the experiment's, and another compiler has none."""
    tuned = "inductor compile_mode=max-autotune compile_dynamic=true"
    names = json.dumps(
        ["none", "inductor", {"compiler": "inductor", "compile_dynamic": True, "compile_mode": "max-autotune"}]
    )
    sweep = swept(compilers=names, compiler="inductor", compile_scope="model")
    assert sweep.fields.compilers == ("none", "inductor", tuned)
    trials = [sweep.trial(name, Point(16), 1500).experiment for name in sweep.fields.compilers]
    options = [(t.compiler, t.compile_scope, t.compile_mode, t.compile_dynamic) for t in trials]
    assert options == [
        ("none", "layers", "default", None),
        ("inductor", "model", "default", None),
        ("inductor", "layers", "max-autotune", True),
    ]
    ranks = swept(
        compilers="none adapter.rank=4, inductor  adapter.rank=16", compiler="inductor", compile_scope="model"
    )
    trials = [ranks.trial(name, Point(16), 1500).experiment for name in ranks.fields.compilers]
    assert [(t.compiler, t.compile_scope, t.adapter.rank) for t in trials] == [
        ("none", "layers", 4),
        ("inductor", "model", 16),
    ]
    assert label(tuned, Point(16)) == f"{tuned}, batch 16"
    assert label("none", Point(64, 2**0.5)) == "none, batch 64, rate × 1.41"


def test_an_unknown_compiler_setting_is_refused() -> None:
    for names, sentence in (
        ("none,inductor compile_mode=fast", "compilers has compile_mode 'fast', which must be one of default, reduce"),
        ("none compile_mode=default", "compilers gives none the option 'compile_mode', but only inductor has compile_"),
        ("none adapter.rank=0", "compilers has adapter.rank '0', which must be a whole number of at least 1"),
        ("torch", "compilers names 'torch', but a compiler is one of none, inductor, trcomp, trcomp-off"),
    ):
        assert refused(compilers=names).startswith(sentence)


def test_some_of_many_batch_sizes_are_timed() -> None:
    assert timed_sizes((8, 16, 32)) == [8, 16, 32]
    # Twelve steps from 8 to 2,048, each a factor of 1.66: 8, 13, 22, 36, 60 ... on the grid of eights.
    sizes = timed_sizes(range(8, 2049, 8))
    assert (len(sizes), sizes[:4], sizes[-2:]) == (12, [8, 16, 24, 40], [1240, 2048])


def test_fields_determine_the_objective() -> None:
    target = swept().objective
    assert (target.cost, target.target, target.is_front) == ("billable_seconds", 0.5, False)
    front = plan_sweep(load("demo", {"sweep.objective": "usd,eval_accuracy"})).objective
    assert front.directions == ["minimize", "maximize"]
    fastest = swept(objective="steady_samples_per_second").objective
    assert (fastest.target, fastest.directions) == (None, ["maximize"])
    bounded = plan_sweep(load("demo", {"sweep.worse_by": "0.02"})).objective
    assert bounded.quality is not None
    assert bounded.quality.metric == "eval_loss"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {},
            "sweep.objective billable_seconds needs target or sweep.worse_by: without either, the largest "
            "batch would win at any quality",
        ),
        (
            {"worse_by": "0.1", **TO_TARGET},
            "sweep.worse_by 0.1 and target eval_loss 0.5 cannot be combined: train until the target, or all samples "
            "with the constraint (target=null removes the target)",
        ),
        (
            {"objective": "eval_loss,usd"},
            "sweep.objective eval_loss,usd must begin with a cost: billable_seconds, usd, steady_samples_per_second",
        ),
        (
            {"objective": "usd,eval_f1"},
            "sweep.objective usd,eval_f1: task classification does not log eval_f1; it logs eval_accuracy, "
            "eval_f1_macro, eval_loss",
        ),
        (
            {"target.metric": "eval_accuracy", "target.value": "1.2"},
            "target.value 1.2 cannot be reached: eval_accuracy is at best 1 (override target.value)",
        ),
    ],
)
def test_contradictions_are_reported_in_one_sentence(fields: dict[str, str], sentence: str) -> None:
    assert refused(**fields) == sentence
    assert refused(batch_size="auto").startswith("batch_size 'auto' cannot be the base of a sweep")


SCRIPT = """\
script:
  source: code
  hyperparameters: {bs: $batch_size, lr: $learning_rate, rank: 8, decay: 0.02, schedule: linear}
target: {metric: eval_accuracy, value: 0.9}
base_learning_rate: 1.0e-3
sweep:
  batch_sizes: 16..32
  hyperparameters:
    rank: {low: 4, high: 64, log: true}
    decay: {low: 0, high: 0.1, count: 3}
    schedule: [cosine, linear]
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """An experiment file with a script."""
    (tmp_path / "own.yaml").write_text(SCRIPT)
    return str(tmp_path / "own.yaml")


def test_a_script_is_swept_by_its_own_hyperparameters(script: str) -> None:
    sweep = plan_sweep(load(script, {"sweep.learning_rate_multipliers": "1..2"}))
    # A factor of two from 4 to 64; three values from 0 to 0.1, and the experiment's own.
    ranks, decays, schedules = (4, 8, 16, 32, 64), (0.0, 0.02, 0.05, 0.1), ("linear", "cosine")
    assert sweep.space.hyperparameters == (("rank", ranks), ("decay", decays), ("schedule", schedules))
    assert len(sweep.space.points) == 2 * 2 * 5 * 4 * 2
    assert sweep.base_point in sweep.space.points
    # The script uses no compiler, and is not calibrated: it is timed as a whole.
    assert (sweep.fields.compilers, sweep.calibration_seconds, sweep.base_point.chosen["rank"]) == (("none",), 0, 8)
    chosen = {"rank": 64, "decay": 0.05, "schedule": "cosine"}
    point = Point(16, 2.0, hyperparameters=json.dumps(chosen))
    assert label("none", point) == "none, batch 16, rate × 2, rank 64, decay 0.05, schedule cosine"
    trial = sweep.trial("none", point, 0).experiment
    # 1e-3 at 32, linear to 16, times 2.
    assert script_hyperparameters(trial) == {"bs": 16, "lr": pytest.approx(1e-3), **chosen}
    assert trial.target is not None
    assert trial.target.stop
    assert (sweep.objective.target, sweep.objective.quality) == (
        0.9,
        Quality(metric="eval_accuracy", higher_is_better=True),
    )
    assert winner(sweep, "none", point) == {
        "compiler": "none",
        "batch_size": 16,
        "learning_rate_multiplier": 2.0,
        **{f"script.hyperparameters.{name}": value for name, value in chosen.items()},
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"script.hyperparameters.bs": "16", "script.hyperparameters.lr": "1"},
            "sweep.batch_sizes needs $batch_size in script.hyperparameters, such as",
        ),
        (
            {"script.hyperparameters.lr": "1", "sweep.learning_rate_multipliers": "1..2"},
            "sweep.learning_rate_multipliers needs $learning_rate in script.hyperparameters",
        ),
        ({"sweep.calibration_seconds": "1"}, "sweep.calibration_seconds requires a task: a script evaluates and is"),
        ({"script.hyperparameters.rank": "null"}, "sweep.hyperparameters.rank starts at script.hyperparameters.rank,"),
        ({"script.hyperparameters.rank": "all"}, "sweep.hyperparameters.rank is a range, but script.hyperparameters."),
        ({"sweep.hyperparameters": "{rank: {low: 1, high: 1}}"}, "sweep.hyperparameters takes lists of plain values"),
        ({"sweep.hyperparameters": "{rank: {low: 0, high: 1, log: true}}"}, "{low, high}, low above 0 if log"),
        (
            {"target": "null", "sweep.worse_by": "0.1", "sweep.quality": "bleu"},
            "sweep.quality 'bleu' has no known direction: add better: higher or better: lower to script.metrics.bleu",
        ),
        ({"sweep.compilers": "none,inductor"}, "compiler 'inductor' would have no effect, because the script itself"),
    ],
)
def test_a_sweep_that_a_script_cannot_run_is_refused(script: str, fields: dict[str, str], sentence: str) -> None:
    if "script.hyperparameters.lr" in fields:
        path = Path(script)
        path.write_text(path.read_text().replace("base_learning_rate: 1.0e-3\n", ""))

    def plan() -> None:
        sweep = plan_sweep(load(script, fields))
        sweep.trial(sweep.fields.compilers[-1], sweep.base_point, 0)

    with pytest.raises(InputError) as caught:
        plan()
    assert sentence in str(caught.value)
