"""The paths: combinations of settings that matter on a GPU, what each job must report, and how they are run."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.support.command import NoJob, Reported, attempt
from benchmarks.support.results import Row, figure
from benchmarks.support.workloads import MINILM
from state.home import home
from training.contract.failures import Failure
from training.staging.models.model_files import locate

STEPS = 40
AMPERE = (8, 0)
"""First compute capability with bf16 and with kernels of FlashAttention 2."""
ADA = (8, 9)
"""First compute capability with matrix products in 8 bits."""

EQUAL_IN_32_BITS = 0.02
EQUAL_IN_16_BITS = 0.05
EQUAL_IN_8_BITS = OTHER_BATCHES = 0.1
"""Largest accepted differences of the evaluation loss from the reference's, in nats, after `STEPS` steps, in which it
falls by about 0.9. Half batches are formed of other rows: on one GPU their loss differed by 0.03."""

COMMON = {
    "experiment": "demo",
    "max_steps": str(STEPS),
    "warmup_samples": "0",
    "eval_strategy": "end",
    "save_model": "false",
    "precision": "fp32",
    "attention": "eager",
    "compiler": "none",
}
"""Fields of all paths. A path's own fields replace them."""
BF16 = {"precision": "bf16"}
IN_16_BITS: Mapping[str, Any] = {"capability": AMPERE, "loss_margin": EQUAL_IN_16_BITS}
IN_8_BITS: Mapping[str, Any] = {"capability": ADA, "package": "torchao", "loss_margin": EQUAL_IN_8_BITS}
TWO_GPUS = {"machine.devices": "2", "batch_size": "16"}
HALVES = {"batch_size": "16", "gradient_accumulation_steps": "2"}
ONE_LENGTH = {"padding": "buckets", "bucket_lengths": "[64]"}
"""Every batch has one length, so only one program is compiled: autotuning takes minutes for each. The rows of a batch
stay the same."""
TOO_LARGE = 1_500
"""Batch size whose eager attention at length 512 needs about 300 GB, more than any GPU has."""
FULL_LENGTH = {"max_length": "512", "padding": "max_length"}
DECODER = {
    "task": "causal-lm",
    "model": "",
    "model_type": "llama",
    "model_overrides": "{hidden_size: 256, intermediate_size: 512, num_hidden_layers: 4, num_attention_heads: 4}",
    "tokenizer": MINILM["model"],
}
"""A small language model with random weights: Liger has no kernels for the demo's encoder."""
OPTIONAL_PACKAGES = ("flash_attn", "liger_kernel", "torchao")
CHECKED_FIELDS = ("precision", "attention", "padding", "kernels", "compile_scope", "compile_mode", "sharding")
"""Settings for which a job must report the value that the path sets."""
NO_TIME = "because the time limit was reached"
LONGEST_JOB_SECONDS = 600
Echo = Callable[[str], None]
Record = Callable[[Sequence[Row], Sequence[str]], None]
"""Writes rows and notes to the result file at once."""


@dataclass(frozen=True)
class GpuPath:
    """A combination of settings, and what a job with it must report."""

    name: str
    title: str
    fields: Mapping[str, str] = field(default_factory=dict)
    capability: tuple[int, int] = (0, 0)
    """Lowest compute capability that supports the path."""
    gpus: int = 1
    package: str = ""
    reference: str = "fp32"
    """Name of the path whose evaluation loss this one must have. It is judged before this one."""
    loss_margin: float | None = EQUAL_IN_32_BITS
    """Largest difference of the evaluation loss from the reference's, in nats. None: it is not compared."""
    is_compiled: bool = False
    failure: str = ""
    """Class of the failure with which the job must end; "" if it must complete."""
    too_large: int | None = None
    """Batch size that a calibration must report as too large; None if the job trains."""

    @property
    def processes(self) -> int:
        """Number of devices that the job must use, with one process on each."""
        return int(self.fields.get("machine.devices", 1))

    @property
    def fills_memory(self) -> bool:
        """True if the job asks for more memory than a GPU has, so that other jobs could fail."""
        return bool(self.failure or self.too_large)

    def job_fields(self) -> dict[str, str]:
        return {**COMMON, **self.fields}


def _compiled(name: str, title: str, fields: Mapping[str, str], reference: str = "fp32") -> GpuPath:
    own = {"compiler": "inductor", **fields}
    return GpuPath(f"compile-{name}", title, own, reference=reference, is_compiled=True)


PATHS = (
    GpuPath("fp32", "32 bits, eager attention, no compiler: the reference for the losses"),
    GpuPath("bf16", "bf16 by autocast", BF16, **IN_16_BITS),
    GpuPath("fp16", "fp16 with a loss scale", {"precision": "fp16"}, loss_margin=EQUAL_IN_16_BITS),
    GpuPath(
        "auto",
        "the precision, attention and optimizer that `auto` chooses",
        {"precision": "auto", "attention": "auto", "optimizer": "auto"},
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath("adamw", "AdamW without the fused kernel", {"optimizer": "adamw"}),
    GpuPath("sdpa", "PyTorch's scaled dot product attention", {"attention": "sdpa"}),
    GpuPath(
        "flash-attention",
        "FlashAttention 2",
        {**BF16, "attention": "flash_attention_2"},
        package="flash_attn",
        **IN_16_BITS,
    ),
    GpuPath("fp8", "8 bits in the linear layers, uncompiled", {"precision": "fp8"}, **IN_8_BITS),
    GpuPath(
        "fp8-compiled",
        "8 bits in the linear layers, compiled",
        {"precision": "fp8", "compiler": "inductor"},
        is_compiled=True,
        **IN_8_BITS,
    ),
    GpuPath("decoder", "a small Llama from scratch: the reference for Liger's losses", DECODER, reference="decoder"),
    GpuPath(
        "liger",
        "the small Llama with Liger's kernels",
        {**DECODER, "kernels": "liger"},
        package="liger_kernel",
        reference="decoder",
    ),
    GpuPath(
        "padding-free",
        "bf16 without padding in the layers",
        # The demo's own arms compare compilers, which need padding.
        {**BF16, "padding": "none", "attention": "auto", "compare.arms": "[{}]"},
        **IN_16_BITS,
    ),
    GpuPath("accumulation", "gradients accumulated over two half batches", HALVES, loss_margin=OTHER_BATCHES),
    _compiled("layers", "one compiled program for the layers", {"compile_scope": "layers"}),
    _compiled("model", "the whole model compiled", {"compile_scope": "model"}),
    _compiled("dynamic", "one compiled program for all lengths", {"compile_dynamic": "true"}),
    _compiled("reduce-overhead", "CUDA graphs", {"compile_mode": "reduce-overhead"}),
    _compiled(
        "accumulation",
        "CUDA graphs with accumulated gradients",
        {"compile_mode": "reduce-overhead", **HALVES},
        reference="accumulation",
    ),
    _compiled(
        "no-cudagraphs",
        "autotuned kernels without CUDA graphs",
        {"compile_mode": "max-autotune-no-cudagraphs", **ONE_LENGTH},
    ),
    _compiled("max-autotune", "autotuned kernels with CUDA graphs", {"compile_mode": "max-autotune", **ONE_LENGTH}),
    GpuPath("two-gpus", "two processes with half a batch each", TWO_GPUS, gpus=2),
    GpuPath(
        "two-gpus-sharded",
        "two processes with half a batch and half of each weight (FSDP2)",
        {**TWO_GPUS, "sharding": "fsdp2"},
        gpus=2,
    ),
    GpuPath("sharded", "FSDP2 in a single process", {**BF16, "sharding": "fsdp2"}, **IN_16_BITS),
    GpuPath(
        "sharded-compiled",
        "FSDP2 in a single process, one compiled program for the layers",
        {"sharding": "fsdp2", "compiler": "inductor"},
        is_compiled=True,
    ),
    GpuPath(
        "calibration",
        "batch sizes up to one that does not fit in memory",
        {"calibration.batch_sizes": f"[32, {TOO_LARGE}]", **FULL_LENGTH},
        too_large=TOO_LARGE,
        loss_margin=None,
    ),
    GpuPath(
        "out-of-memory",
        "a training whose batch does not fit in memory",
        {"batch_size": str(TOO_LARGE), **FULL_LENGTH},
        failure="OutOfMemory",
        loss_margin=None,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Cards:
    """Equal devices of one machine."""

    kind: str
    """Kind that jobs report: `cuda`; `cpu` in tests of the checks themselves."""
    name: str
    count: int
    capability: tuple[int, int]
    """CUDA's compute capability, such as (8, 0) for Ampere."""
    packages: Set[str]

    def reason_against(self, path: GpuPath) -> str:
        """Return why a path cannot run here; "" if it can."""
        if self.count < path.gpus:
            return f"it needs {path.gpus} GPUs, and this machine has {self.count}"
        if self.capability < path.capability:
            needed, own = (".".join(map(str, each)) for each in (path.capability, self.capability))
            return f"it needs compute capability {needed}, and {self.name} has {own}"
        if path.package and path.package not in self.packages:
            return f"it needs the package {path.package}, which is not installed"
        return ""


def cards_here() -> Cards | None:
    """Return the GPUs of this machine, or None without one that PyTorch can use."""
    import torch  # takes seconds

    if not torch.cuda.is_available():
        return None
    return Cards(
        kind="cuda",
        name=torch.cuda.get_device_name(0),
        count=torch.cuda.device_count(),
        capability=torch.cuda.get_device_capability(0),
        packages=frozenset(name for name in OPTIONAL_PACKAGES if find_spec(name)),
    )


def differences(path: GpuPath, reported: Reported, cards: Cards, reference_loss: float | None) -> list[str]:
    """Return a sentence for each expectation that does not hold."""
    kind = reported.failure.failure_class if reported.failure else ""
    if kind != path.failure:
        ending = f"ended with {kind}: {reported.failure.message}" if reported.failure else "completed"
        return [f"{path.failure or 'a completed job'} was expected, but it {ending}"]
    if path.failure:
        return []
    if path.too_large:
        fits = {
            event.fields["step"]: bool(event.fields["values"]["calibration/fits"])
            for event in reported.events
            if event.kind == "metric" and "calibration/fits" in event.fields["values"]
        }
        wrong = [f"batch size {path.too_large:,} was expected not to fit"] if fits.get(path.too_large, True) else []
        return wrong if any(fits.values()) else [*wrong, "no batch size fits"]
    start, fields = reported.first("start"), path.job_fields()
    device, used = start.get("device", {}), start.get("hyperparameters", {})
    expected = {name: fields[name] for name in CHECKED_FIELDS if name in fields}
    if fields["attention"] == "auto":
        del expected["attention"]
    if fields["precision"] == "auto":
        expected["precision"] = "bf16" if cards.capability >= AMPERE else "fp16"
        if cards.kind != "cuda":
            del expected["precision"]
    counts = (f"{device.get('count')} devices", f"{path.processes} devices")
    kinds = ((device.get("kind", "no device"), cards.kind), counts)
    return [
        *(f"it ran on {ours} and not on {needed}" for ours, needed in kinds if ours != needed),
        *(
            f"{name} was {used.get(name)} and not {value}"
            for name, value in expected.items()
            if used.get(name) != value
        ),
        *_results(path, reported, reference_loss),
    ]


def _results(path: GpuPath, reported: Reported, reference_loss: float | None) -> list[str]:
    metrics, sentences = reported.metrics, []
    loss = metrics.get("eval_loss", math.nan)
    if not math.isfinite(loss):
        sentences.append(f"the evaluation loss is {loss}")
    elif reference_loss is not None and path.loss_margin is not None and abs(loss - reference_loss) > path.loss_margin:
        sentences.append(f"the evaluation loss is {loss:.4f}; expected {reference_loss:.4f} ± {path.loss_margin:g}")
    utilisation = metrics.get("throughput/mfu")
    if utilisation is not None and not 0 < utilisation <= 1:
        sentences.append(f"throughput/mfu is {utilisation:.3g}, which is not a share of the card's peak")
    has_compiled = any(event.kind == "phase" and event.fields.get("phase") == "compile" for event in reported.events)
    if path.is_compiled and not has_compiled:
        sentences.append("nothing was compiled")
    return sentences


def model_without_dropout(folder: Path) -> Path:
    """Copy the demo's model into a new folder under `folder` and set its dropout to 0. Return the new folder.

    Compiled and uncompiled programs draw different random numbers for dropout, so their losses would differ.
    """
    copy = folder / "model"
    shutil.copytree(locate(MINILM["model"]).location, copy)
    file = copy / "config.json"
    config = json.loads(file.read_text())
    config |= {name: 0.0 for name in config if name.endswith("dropout_prob")}
    file.write_text(json.dumps(config))
    return copy


def own_folder(folder: Path, name: str, fields: Mapping[str, str]) -> Path:
    """Return the folder of a job's state: a new one under `folder`, or for autotuned kernels one that stays.

    Autotuning can take longer than a command may. What is already tuned is in the compile cache, so the next command
    continues.
    """
    own = (home() / "accept-gpu" if "autotune" in fields.get("compile_mode", "") else folder) / name
    own.mkdir(parents=True, exist_ok=True)
    return own


class Deadline:
    """The time until which jobs may run."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def limits(self) -> dict[str, str]:
        """Return the field that limits the next job's time; empty if less than a minute is left."""
        left = min(LONGEST_JOB_SECONDS, int(self._end - time.monotonic()))
        return {"machine.max_run_seconds": str(left)} if left >= 60 else {}


class Findings:
    """Figures and notes of one result file, each recorded as soon as it is measured."""

    def __init__(self, record: Record) -> None:
        self._record, self._is_met, self._failed = record, dict[str, bool](), False

    def add(self, rows: Sequence[Row], notes: Sequence[str] = (), *, failed: bool = False) -> None:
        """Record figures; later ones replace those of the same names. `failed` stands for a figure that is missing."""
        self._record(rows, notes)
        self._is_met |= {row.name: row.met is not False for row in rows}
        self._failed = self._failed or failed

    @property
    def has_passed(self) -> bool:
        return not self._failed and all(self._is_met.values())


def reported_by(
    folder: Path, fields: Mapping[str, str], *, offline: bool = True, slots: Path | None = None
) -> Reported:
    """Run a job with these fields, and its state and tracking under `folder`. Return what it reports.

    `offline` keeps it from the Hub. With a folder `slots`, it does not wait for devices that other jobs use.
    """
    try:
        run = attempt(folder, fields, offline=offline, slots=slots)
    except NoJob as error:
        return Reported(failure=Failure("Refused", str(error).strip().rpartition("\n")[2]), events=())
    return Reported(failure=run.failure, events=run.events)


def speed_rows(name: str, results: Sequence[Mapping[str, float]]) -> list[Row]:
    """Return the speed of the jobs of one setting, and their utilisation if the card's peak is known."""
    recorded = {
        "steady samples": ("throughput/steady_samples_per_second", "samples/s"),
        "steady real tokens": ("throughput/steady_tokens_per_second", "tokens/s"),
        "utilisation": ("throughput/mfu", "of the card's 16-bit peak"),
    }
    return [
        figure(f"{name}: {label}", values, unit)
        for label, (metric, unit) in recorded.items()
        if (values := [each[metric] for each in results if metric in each])
    ]


def try_paths(
    paths: Sequence[GpuPath], cards: Cards, folder: Path, deadline: Deadline, record: Record, parallel: int = 1
) -> bool:
    """Run one job for each path, `parallel` at a time, and compare what it reports with the expectations.

    Each path is recorded when it and its reference have ended. A path that this machine cannot run is only noted. A
    path for which no time is left counts as failed. Returns whether all paths that ran are as expected.
    """
    parallel = min(parallel, len(paths))
    findings = Findings(record)
    findings.add((), [f"{parallel} paths ran at a time, so their speeds are not reported."] if parallel > 1 else ())
    model = str(model_without_dropout(folder))

    def run(path: GpuPath) -> Reported | None:
        limits = {} if cards.reason_against(path) else deadline.limits()
        if not limits:
            return None
        own = own_folder(folder, path.name, path.fields)
        return reported_by(own, {"model": model, **path.job_fields(), **limits}, slots=own / "slots")

    def reports() -> Iterator[tuple[GpuPath, Reported | None]]:
        with ThreadPoolExecutor(parallel) as pool:
            jobs = {pool.submit(run, path): path for path in paths if not path.fills_memory}
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        yield from ((path, run(path)) for path in paths if path.fills_memory)  # one by one

    ended: dict[str, Reported | None] = {}
    waiting = list(paths)
    for finished, outcome in reports():
        ended[finished.name] = outcome
        for path in [each for each in waiting if {each.name, each.reference} <= ended.keys()]:
            waiting.remove(path)
            if reason := cards.reason_against(path):
                findings.add((), [f"{path.name}: not run, because {reason}."])
                continue
            reported, reference = ended[path.name], ended[path.reference]
            loss = reference.metrics.get("eval_loss") if reference else None
            wrong = differences(path, reported, cards, loss) if reported else [f"it was not run, {NO_TIME}"]
            rows = [figure(f"{path.name}: {path.title}", len(wrong), "failed checks", most=0)]
            if reported and parallel == 1:
                rows += speed_rows(path.name, [reported.metrics])
            findings.add(rows, [f"{path.name}: {sentence}." for sentence in wrong])
    return findings.has_passed
