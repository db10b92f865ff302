"""Run the job's entry point under PyTorch's profiler: `python profiled_job.py FILE ARGUMENTS...`.

The working directory must be the job's code folder. Writes to FILE the time of each operation in the steps after the
warm-up.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

WARMUP_STEPS = 3


def main(file: Path) -> int:
    """Train with the profiler on after the warm-up. Return the job's exit code."""
    sys.path[0] = str(Path.cwd())
    from torch.profiler import ProfilerActivity, profile
    from transformers import TrainerCallback

    training_run = importlib.import_module("training_run")

    class Profiler(TrainerCallback):  # type: ignore[misc]
        """Profiles the steps after the warm-up."""

        def __init__(self) -> None:
            self.profile = profile(activities=[ProfilerActivity.CPU])
            self.started_at = 0.0

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step == WARMUP_STEPS:
                self.profile.start()
                self.started_at = time.perf_counter()
            elif state.global_step == state.max_steps:
                seconds = time.perf_counter() - self.started_at
                self.profile.stop()
                file.write_text(json.dumps(as_json(self.profile, seconds, state.global_step - WARMUP_STEPS)))

    original = training_run._trainer

    def with_profiler(*arguments: Any) -> Any:
        trainer, sampler = original(*arguments)
        trainer.add_callback(Profiler())
        return trainer, sampler

    training_run._trainer = with_profiler  # type: ignore[attr-defined]
    return int(importlib.import_module("train").main())


def as_json(profile: Any, seconds: float, steps: int) -> dict[str, Any]:
    """Return the profile as values that JSON can represent."""
    operations = [{"name": event.key, "seconds": event.self_cpu_time_total / 1e6} for event in profile.key_averages()]
    return {"seconds": seconds, "steps": steps, "operations": operations}


if __name__ == "__main__":
    file, sys.argv[1:] = Path(sys.argv[1]), sys.argv[2:]
    sys.exit(main(file))
