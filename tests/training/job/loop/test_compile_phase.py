"""Nothing is compiled after the compile phase, which does not change the training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loop.compile_phase import steps_per_shape

BUCKETS = {"padding": "buckets", "bucket_lengths": "6,12", "max_steps": 12}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile cache that the trainings share, as on a machine that runs several."""
    return tmp_path_factory.mktemp("inductor")


def run(job: Any, cache: Path, **arguments: Any) -> Any:
    job.environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    # Dropout draws different numbers inside a compiled program.
    model = job.folder.parent / f"{job.folder.name} model"
    shutil.copytree(job.environment["SM_CHANNEL_MODEL"], model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(
        json.dumps(config | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    )
    job.environment["SM_CHANNEL_MODEL"] = str(model)
    return job.run(learning_rate=0.01, **arguments)


@pytest.mark.slow
def test_a_second_job_uses_the_compile_cache_and_losses_are_equal(
    new_job: Callable[[str], Any], tmp_path: Path
) -> None:
    cache = tmp_path / "inductor"
    cold = run(new_job("cold"), cache, compiler="inductor", eval_strategy="steps", eval_steps=5, **BUCKETS)
    warm = run(new_job("warm"), cache, compiler="inductor", **BUCKETS)
    eager = run(new_job("eager"), cache, compiler="none", **BUCKETS)
    assert [ended.result["cache_state"] for ended in (cold, warm, eager)] == ["cold", "warm", "off"]
    for ended in (cold, warm):
        metrics = ended.result["metrics"]
        assert metrics["compile/recompiles"] == 0
        assert metrics["compile/graphs"] >= 1
        assert ended.losses == pytest.approx(eager.losses, rel=1e-3)
        assert metrics["eval_loss"] == pytest.approx(eager.result["metrics"]["eval_loss"], rel=1e-3)
        assert metrics["time/compile_seconds"] > metrics["time/warmup_seconds"]
    assert "time/compile_seconds" not in eager.result["metrics"]


@pytest.mark.slow
def test_varying_lengths_compile_once(new_job: Callable[[str], Any], cache: Path) -> None:
    ended = run(new_job("vary"), cache, compiler="inductor", padding="longest", epochs=2)
    assert ended.result["metrics"]["compile/recompiles"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compile_scope": "model"}, "inductor compiles 1 x BertForSequenceClassification, one program for all"),
        ({"compile_dynamic": "false"}, "inductor compiles 2 x BertLayer, one program per shape"),
        ({"compile_mode": "max-autotune-no-cudagraphs"}, "lengths, mode max-autotune-no-cudagraphs;"),
        # A CPU has no CUDA graphs; the mode is accepted all the same.
        ({"compile_mode": "reduce-overhead"}, "lengths, mode reduce-overhead;"),
    ],
)
def test_options_of_inductor_train_the_same(
    new_job: Callable[[str], Any], cache: Path, options: dict[str, str], said: str
) -> None:
    ended = run(new_job("options"), cache, compiler="inductor", **options, **BUCKETS)
    eager = run(new_job("eager"), cache, compiler="none", **BUCKETS)
    assert any(said in event["message"] for event in ended.events("note")), ended.events("note")
    assert ended.losses == pytest.approx(eager.losses, rel=1e-3)
    assert ended.result["metrics"]["compile/recompiles"] == 0
    [start] = ended.events("start")
    for name, value in options.items():
        assert str(start["hyperparameters"][name]).lower() == value


@pytest.mark.parametrize(
    ("device_kind", "compile_mode", "steps"),
    [
        ("cuda", "reduce-overhead", 3),
        ("cuda", "max-autotune", 3),
        ("cuda", "max-autotune-no-cudagraphs", 1),
        ("cuda", "default", 1),
        ("cpu", "reduce-overhead", 1),
    ],
)
def test_cuda_graphs_are_recorded_before_the_first_step(device_kind: str, compile_mode: str, steps: int) -> None:
    assert steps_per_shape(device_kind, compile_mode) == steps
