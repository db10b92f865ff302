"""`python -m benchmarks.gpu.profile_step --workload NAME [--minutes N]`, or `make gpu-profile WORKLOAD=NAME`.

Profiles a training step of each side on the same rows: our defaults, the recipe, and the tuned Trainer. A process per
side takes warm-up steps, then timed steps, then steps whose operations and waits are counted, then traced ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gpu.__main__ import SHORT_MINUTES, recording
from benchmarks.gpu.paths import Record, cards_here
from benchmarks.gpu.sweep import IMAGES, NO_GPU
from benchmarks.gpu.workloads import GPU_WORKLOADS, side_fields
from benchmarks.support.command import train
from benchmarks.support.results import Row, figure
from benchmarks.support.workloads import DATA, RECIPE
from reports.charts.canvas import arm_colour, legend_below, plain_numbers, plot
from reports.model.report import Chart
from tracking.recording.run_artifacts import ROOT

Side = Mapping[str, Any]
INDUCTOR = {"compiler": "inductor"}
SIDES: Mapping[str, Side] = {
    "ours": {},
    "tuned Trainer": {"tuned": True},
    "recipe": {**RECIPE, "precision": "fp16"},
    "ours, 2 data workers": {"dataloader_workers": "2"},
    "ours, inductor": INDUCTOR,
    "tuned Trainer, inductor": {"tuned": True, **INDUCTOR},
    "ours, CUDA graphs": {**INDUCTOR, "compile_mode": "reduce-overhead"},
}
"""Arguments of a job, or `tuned`, most important first."""
COMPARED: Mapping[str, Mapping[str, float | None]] = {
    "ours": {"tuned Trainer": 1.25, "recipe": 1.8},
    "ours, 2 data workers": {"ours": None},
    "ours, inductor": {"tuned Trainer, inductor": 1.25, "recipe": 1.8},
    "ours, CUDA graphs": {"tuned Trainer, inductor": 1.25, "ours, inductor": None, "recipe": 1.8},
}
"""Side -> the sides that it is compared with, and the least gain in real tokens per second."""
LEAST_RATE = {"bert-large-squad-dp": 120.0}
"""Samples per second that ours must reach on an H100."""
MOST_OVERHEAD = 0.15
"""Largest share of clipping, optimizer and loop in a step."""
WARM_UP, TIMED, COUNTED = 8, 20, 3
"""Steps of each part. Trainer compiles its first lengths in steps."""
PHASES = ("fetch", "forward", "backward", "clip", "optimizer", "loop")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


class StepProfile:
    """Times the phases of a trainer's steps, by the host's clock and the device's, and counts what they do."""

    def __init__(self, trainer: Any, timed: int, *, is_compiled: bool) -> None:
        import torch
        from transformers import TrainerCallback

        from training.job.measuring.meter import clock_for

        self._cuda = torch.cuda.is_available()
        self._clock, self._trainer, self._timed = clock_for("cuda" if self._cuda else "cpu"), trainer, timed
        self._ends, self._masks, self._is_compiled = list[Any](), list[Any](), is_compiled
        self._spans: dict[str, list[tuple[float, Any, Any]]] = {}
        self.measured: dict[str, float] = {}
        self._wrap(trainer, "get_batch_samples", "fetch")
        self._wrap(trainer, "compute_loss", "forward")
        self._wrap(trainer.accelerator, "backward", "backward")
        self._wrap(trainer, "_clip_grad_norm", "clip")
        methods = {"on_train_begin": self._begin, "on_step_end": self._end}
        trainer.add_callback(type("Profile", (TrainerCallback,), methods)())

    def _wrap(self, owner: Any, name: str, phase: str) -> None:
        function = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            host, start = time.perf_counter(), self._clock.mark()
            result = function(*args, **options)
            if self._ends:
                span = (time.perf_counter() - host, start, self._clock.mark())
                self._spans.setdefault(phase, []).append(span)
                self._masks += [batch["attention_mask"] for batch in result[0]] if phase == "fetch" else []
            return result

        setattr(owner, name, timed)

    def _begin(self, *_: Any, **__: Any) -> None:
        self._wrap(self._trainer.optimizer, "step", "optimizer")

    def _end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        timed_until, step = WARM_UP + self._timed, state.global_step
        if WARM_UP <= step <= timed_until:
            self._ends.append((self._clock.now() if step in (WARM_UP, timed_until) else 0.0, self._clock.mark()))
        if step == timed_until:
            self._summarise()
            self._ends, self._counts = [], Counter[str]()
            self._count()
        if step == timed_until + COUNTED:
            self._stop_counting()
            self._trace = self._tracer()
        if step == timed_until + 2 * COUNTED and self._trace:
            self._trace.__exit__(None, None, None)
            self.measured |= traced(self._trace.events(), COUNTED)

    def _summarise(self) -> None:
        seconds = self._ends[-1][0] - self._ends[0][0]
        marks = [mark for _, mark in self._ends]
        between = self._clock.seconds_between
        steps = [between(start, end) for start, end in pairwise(marks)]
        self.measured = {
            "samples": sum(map(len, self._masks)) / seconds,
            "real tokens": sum(int(mask.sum()) for mask in self._masks) / seconds,
            "step": 1000 * median(steps),
        }
        covered = 0.0
        for phase, spans in self._spans.items():
            self.measured[f"{phase}, host"] = 1000 * median(host for host, _, _ in spans)
            self.measured[phase] = 1000 * sum(between(start, end) for _, start, end in spans) / len(steps)
            covered += self.measured[phase]
        mean = 1000 * sum(steps) / len(steps)
        self.measured["loop"] = mean - covered
        own = self.measured["loop"] + self.measured.get("clip", 0.0) + self.measured["optimizer"]
        self.measured["optimizer and loop"] = own / mean

    def _count(self) -> None:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        counts = self._counts

        class Counting(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                counts[function.name()] += 1
                return function(*args, **(kwargs or {}))

        self._warnings = warnings.catch_warnings(record=True)
        self._caught = self._warnings.__enter__()
        warnings.simplefilter("always")
        if self._cuda:
            torch.cuda.set_sync_debug_mode("warn")
        # A compiler would compile everything again.
        self._mode = None if self._is_compiled else Counting()
        if self._mode:
            self._mode.__enter__()

    def _stop_counting(self) -> None:
        import torch

        if self._mode:
            self._mode.__exit__(None, None, None)
            self.measured["operations"] = sum(count for name, count in self._counts.items() if "aten" in name) / COUNTED
            self.measured["reads of device values"] = self._counts["aten::_local_scalar_dense"] / COUNTED
        if self._cuda:
            torch.cuda.set_sync_debug_mode("default")
            waits = sum("synchroniz" in str(each.message) for each in self._caught or ())
            self.measured["synchronisations"] = waits / COUNTED
        self._warnings.__exit__(None, None, None)

    def _tracer(self) -> Any:
        from torch.profiler import ProfilerActivity, profile

        return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]).__enter__() if self._cuda else None


def traced(events: Iterable[Any], steps: int) -> dict[str, float]:
    """Return counts and milliseconds a step from the profiler's events: launches, kernels, copies and waits."""
    totals = Counter[str]()
    for event in events:
        on_device, milliseconds = event.device_type.name == "CUDA", event.time_range.elapsed_us() / 1000
        if on_device:
            kind = "copy" if event.name.startswith(("Memcpy", "Memset")) else "kernel"
        elif "Launch" in event.name and event.name.startswith("cu"):
            kind = "launch"
        elif event.name in WAITS:
            kind = "wait"
        else:
            continue
        totals[f"{kind} count"] += 1
        totals[f"{kind} time"] += milliseconds
    return {name: value / steps for name, value in totals.items()}


def rows(workload: str, measured: Mapping[str, Mapping[str, float]], side: str) -> list[Row]:
    """Return the rows of a side, given all sides that were measured so far. Times are in milliseconds a step."""
    values, is_ours, made = measured[side], side.startswith("ours"), list[Row]()
    units = {"samples": "samples/s", "real tokens": "tokens/s", "optimizer and loop": "of the step"}
    for name, value in values.items():
        least = LEAST_RATE.get(workload) if is_ours and name == "samples" else None
        most = {"synchronisations": 0.0, "optimizer and loop": MOST_OVERHEAD}.get(name) if is_ours else None
        counts = ("operations", "reads of device values", "synchronisations")
        unit = units.get(name, "a step" if name in counts or name.endswith("count") else "ms a step")
        made.append(figure(f"{workload}, {side}: {name}", value, unit, least=least, most=most))
    for ours, others in COMPARED.items():
        for other, gain in others.items():
            if side in (ours, other) and {ours, other} <= measured.keys():
                ratio = measured[ours]["real tokens"] / measured[other]["real tokens"]
                made.append(figure(f"{workload}, {ours}: gain over {other}", ratio, "x", least=gain))
    return made


def picture(workload: str, measured: Mapping[str, Mapping[str, float]]) -> Chart:
    """Return a bar for each side: the milliseconds of a step by phase."""
    spans = [{phase: values.get(phase, 0.0) for phase in PHASES} for values in measured.values()]

    def draw(axes: Any) -> None:
        for number, phase in enumerate(PHASES):
            starts = [sum(span[each] for each in PHASES[:number]) for span in spans]
            axes.barh([*measured], [span[phase] for span in spans], left=starts, color=arm_colour(number), label=phase)
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds a step")
        plain_numbers(axes)
        legend_below(axes, axes.get_legend_handles_labels()[0], fontsize=10, handlelength=0.9)

    sums = (f"{side}: {sum(span.values()):.3g} ms" for side, span in zip(measured, spans, strict=True))
    return plot("step", f"{workload}: a training step by phase", 1.6 + 0.35 * len(spans), draw, "; ".join(sums))


def profile_sides(
    workload: str, fields: Mapping[str, str], sides: Mapping[str, Side], seconds: float, timed: int, record: Record
) -> Mapping[str, Mapping[str, float]]:
    """Stage the rows by a job of two steps, then profile each side while there is time, and record it at once.

    Return the measurements by side.
    """
    end, measured = time.monotonic() + seconds, dict[str, Mapping[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        job = train(Path(folder), {**fields, "max_steps": "2", "steady_after_steps": "1"}).job
        for side, own in sides.items():
            given = json.dumps({**own, "timed": timed, "output": f"{folder}/{len(measured)}"})
            command = [sys.executable, "-m", "benchmarks.gpu.profile_step", "--side", str(job.request_file), given]
            try:
                done = subprocess.run(
                    command, cwd=ROOT, capture_output=True, text=True, timeout=max(1.0, end - time.monotonic())
                )
            except subprocess.TimeoutExpired:
                record([], [f"{workload}, {side}: not measured, because the time limit was reached."])
                continue
            if done.returncode:
                record([], [f"{workload}, {side}: failed: {(done.stderr.strip() or 'no output').splitlines()[-1]}"])
                continue
            measured[side] = json.loads(done.stdout.splitlines()[-1])
            record(rows(workload, measured, side), [])
    return measured


def profile_side(request_file: str, own: dict[str, Any]) -> dict[str, float]:
    """Train one side in this process, from the request of a job on the same rows. Return its measurements."""
    import torch

    request, timed, output = json.loads(Path(request_file).read_text()), own.pop("timed"), Path(own.pop("output"))
    steps, on_gpu = WARM_UP + timed + 2 * COUNTED, torch.cuda.is_available()
    is_compiled = own.get("compiler") == "inductor"
    if own.pop("tuned", False):
        from benchmarks.tuning.tuned_trainer import new_trainer

        choice = {"precision": "bf16" if on_gpu else "fp32", "attention": "sdpa", "compile": is_compiled}
        trainer = new_trainer(request, {**choice, "max_steps": steps, "output": str(output)}, [])
    else:
        own = {"precision": "auto", **own, "max_steps": steps, "logging_steps": 10 * steps, "eval_strategy": "end"}
        trainer = _our_trainer(request, own if on_gpu else {**own, "precision": "fp32"}, output)
    profile = StepProfile(trainer, timed, is_compiled=is_compiled)
    trainer.train()
    return profile.measured


def _our_trainer(request: Mapping[str, Any], own: Mapping[str, Any], output: Path) -> Any:
    from benchmarks.tuning.tuned_trainer import channels
    from training.job import training_run
    from training.job.loop.job_trainer import JobTrainer
    from training.job.loop.prepared_model import prepare
    from training.job.measuring.meter import Meter, clock_for
    from training.job.processes.ranks import StopRequest
    from training.job.processes.reporting import Events
    from training.job.settings.arguments import FIELDS
    from training.job.settings.job_settings import resolve_settings

    values = {name: json.loads(text) for name, text in request["HyperParameters"].items()}
    values = {name: value for name, value in {**values, **own}.items() if name in FIELDS}
    folders = {f"SM_CHANNEL_{name.upper()}": str(folder) for name, folder in channels(request).items()}
    outputs = {f"SM_{name}_DIR": str(output) for name in ("MODEL", "OUTPUT", "OUTPUT_DATA")}
    events = Events(enabled=False)
    argv = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    settings = resolve_settings(argv, {**os.environ, **folders, **outputs}, events)
    model = training_run._load_model(settings)
    settings = prepare(model, training_run._drop_unsupported_token_types(settings, model))
    meter = Meter(clock_for(settings.device_kind), 1)
    trainer = JobTrainer(settings, model, meter, training_run._checkpoint_keeper(settings, model))
    training_run._reporter(trainer, events, StopRequest(lambda: None))
    return trainer


def main(arguments: Sequence[str]) -> int:
    """Profile a workload, and append the rows of each side to `benchmarks/results/gpu-profile.json`."""
    if arguments[:1] == ["--side"]:
        print(json.dumps(profile_side(arguments[1], json.loads(arguments[2]))))
        return 0
    parser = argparse.ArgumentParser(prog="benchmarks.gpu.profile_step")
    parser.add_argument("--workload", required=True, choices=[each.name for each in GPU_WORKLOADS])
    parser.add_argument("--minutes", type=float, default=SHORT_MINUTES)
    options = parser.parse_args(arguments)
    print(f"A training step of {options.workload}, in at most {options.minutes:g} minutes: {'; '.join(SIDES)}.")
    if not cards_here():
        print("This machine has no GPU that PyTorch can use. Nothing was run.")
        return NO_GPU
    [workload] = [each for each in GPU_WORKLOADS if each.name == options.workload]
    fields, record = side_fields(workload, "ours uncompiled", DATA.is_dir()), recording("gpu-profile", [])
    measured = profile_sides(workload.name, fields, SIDES, options.minutes * 60, TIMED, record)
    if measured:
        (IMAGES / f"gpu-profile-{workload.name}.png").write_bytes(picture(workload.name, measured).png)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
