"""The hardware that a job runs on: its capabilities, its memory and threads, and what `auto` selects on it."""

import gc
import math
import os
import platform
import resource
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch

from training.job.measuring.machine_load import job_cpus, value_of
from training.job.processes import ranks
from training.job.processes.reporting import Unsupported

GIB = 2.0**30
KIB = 1024

MEMORY_MARGIN = 0.95
"""Share of the free memory that the job may use. The rest remains for the system."""

MEMORY_LIMITS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""For each version of control groups: folder, file with the container's memory limit, file with its usage, and key of
the file cache, the part of the usage that the kernel frees when memory is short."""

LONGEST_EAGER_TOKENS = 1024
"""Longest rows for which eager attention is chosen on a CPU."""

FP8_CAPABILITY = (8, 9)
"""First compute capability of NVIDIA with matrix products in 8-bit floating point: Ada, then Hopper and Blackwell."""

FLOPS_PER_SECOND = {
    # Dense peak of 16-bit matrix products on tensor cores, without sparsity, from NVIDIA's data sheets: V100 (2020), T4
    # (2019), A10G (AWS G5 page: 70), A100 (2021), L4 (2023), L40S (2023), H100 SXM (2023), H200 (2024), B200 (2025).
    "V100": 125e12,
    "T4": 65e12,
    "A10G": 70e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "H100": 989e12,
    "H200": 989e12,
    "B200": 2250e12,
}


def device_kind() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def describe(kind: str, processes: int) -> dict[str, object]:
    """Return the device fields of the `start` event. Only a GPU has `memory_gib`."""
    if kind == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        memory_gib = properties.total_memory / GIB
        return {"kind": kind, "name": properties.name, "count": processes, "memory_gib": round(memory_gib, 2)}
    name = _cpu_line("model name") or platform.processor() or platform.machine()
    return {"kind": kind, "name": name, "count": processes}


def _cpu_line(key: str) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def precision(requested: str, kind: str) -> str:
    """Return the precision of the matrix products: `fp32`, `bf16`, `fp16` or `fp8`. Raises `Unsupported`.

    On a CPU, `auto` is bf16 only with fast instructions for it. AVX512-BF16 is fast on AMD; on an Intel Xeon without
    AMX, MiniLM trained with it at 0.65 of the speed of fp32.
    """
    if requested == "fp16" and kind == "cpu":
        raise Unsupported("precision fp16 needs a GPU, and this machine has none: use bf16, fp32 or auto")
    if requested == "fp8":
        _check_fp8(kind)
    if requested != "auto":
        return requested
    if kind == "cpu":
        flags, is_amd = _cpu_line("flags").split(), _cpu_line("vendor_id") == "AuthenticAMD"
        return "bf16" if "amx_bf16" in flags or (is_amd and "avx512_bf16" in flags) else "fp32"
    # Volta and Turing emulate bf16, which is slow.
    return "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"


def _check_fp8(kind: str) -> None:
    if kind != "cuda":
        raise Unsupported(f"precision fp8 needs an NVIDIA GPU, but this job runs on {kind}: use precision bf16")
    capability = torch.cuda.get_device_capability()
    if capability < FP8_CAPABILITY:
        raise Unsupported(
            "precision fp8 needs a GPU of compute capability 8.9 or higher (Ada, Hopper, Blackwell), but "
            f"{torch.cuda.get_device_name()} has {capability[0]}.{capability[1]}: use precision bf16"
        )


def attention(requested: str, kind: str, max_length: int) -> str:
    """Return the attention implementation with which a model is loaded. Raises `Unsupported`.

    `auto` leaves the choice to transformers, except on a CPU. There, it selects eager attention up to
    `LONGEST_EAGER_TOKENS`, which `loop/prepared_model.py` replaces by blockwise where the model can use it. PyTorch's
    scaled dot product has no training kernel with dropout there, and its kernel without dropout is slower than plain
    matrix products at these lengths. Longer rows need the lower memory use of the scaled dot product.
    """
    if requested == "blockwise" and kind != "cpu":
        raise Unsupported(f"attention blockwise is for CPUs, but this job runs on {kind}: use attention auto")
    return "eager" if requested == "auto" and kind == "cpu" and max_length <= LONGEST_EAGER_TOKENS else requested


def disable_cudnn_attention() -> None:
    """Stop PyTorch from using cuDNN for scaled dot-product attention.

    cuDNN makes a plan for each new shape of batch, and batches padded to their longest row have many shapes: on an
    H200, a plan took 0.15 s, as long as several steps, while the first call of another kernel took 0.0006 s. After
    that, either can be faster up to 128 tokens; at 384, cuDNN is twice as fast (docs/decisions/0014).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def peak_flops_per_second(name: str) -> float | None:
    """Return a device's peak FLOP/s in 16-bit matrix products, or None if it is unknown."""
    return next((peak for model, peak in FLOPS_PER_SECOND.items() if model in name), None)


def memory_metrics(kind: str) -> dict[str, float]:
    """Return the peak memory so far in GiB: the process's, and the GPU's if the job uses one."""
    metrics = {"memory/peak_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / GIB}
    if kind == "cuda":
        metrics["memory/peak_allocated_gib"] = torch.cuda.max_memory_allocated() / GIB
        metrics["memory/peak_reserved_gib"] = torch.cuda.max_memory_reserved() / GIB
    return metrics


def process_age_seconds() -> float:
    """Return the seconds since this process started, including the interpreter's start."""
    started_ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime_seconds = float(Path("/proc/uptime").read_text().split()[0])
    return uptime_seconds - started_ticks / os.sysconf("SC_CLK_TCK")


def installation_seconds(requirements: Path) -> float | None:
    """Return the seconds in which SageMaker's toolkit installed a job's packages; None if the job brought none.

    The toolkit unpacks the file `requirements` with the source just before the installation, and a package's files
    change last when they are installed. `process_age_seconds` does not include this time.
    """
    if not requirements.is_file():
        return None
    names = [line.partition("=")[0] for line in requirements.read_text("utf-8").split()]
    files = [spec.origin for spec in map(find_spec, names) if spec and spec.origin]
    seconds = [Path(file).stat().st_ctime - requirements.stat().st_ctime for file in files]
    return max([0.0, *seconds])


def reset_peak(kind: str) -> None:
    """Free unused memory and restart the measurement of the peak."""
    gc.collect()
    if kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    # If the file cannot be written, `peak_gib` returns the peak since the process started, which is still right for
    # parts that need more memory than those before them.
    with suppress(OSError):
        # proc(5): 5 resets the peak of the resident set to its current size.
        Path("/proc/self/clear_refs").write_text("5")


def peak_gib(kind: str) -> float:
    """Return the peak memory since the last reset in GiB: reserved memory on a GPU, else resident memory."""
    if kind == "cuda":
        return float(torch.cuda.max_memory_reserved()) / GIB
    return _bytes_of(Path("/proc/self/status"), "VmHWM:") / GIB


def limit_to_free_memory(processes_here: int) -> None:
    """Limit the process to its share of the free memory, so that it gets an error instead of being killed.

    Linux grants more memory than it has, and then kills a process that uses it, which no program can handle. A lower
    limit that is already set stays in force.
    """
    limit = _bytes_of(Path("/proc/self/status"), "VmData:") + int(free_bytes() * MEMORY_MARGIN) // processes_here
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    finite = [each for each in (soft, hard, limit) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(finite), hard))


def memory_limit_gib(kind: str, processes_here: int) -> float:
    """Return the memory in GiB that `peak_gib` of this process can reach."""
    if kind == "cuda":
        return float(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory) / GIB
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    share = _bytes_of(Path("/proc/self/status"), "VmRSS:") + free_bytes() // processes_here
    return (share if soft == resource.RLIM_INFINITY else min(share, soft)) / GIB


def free_bytes() -> int:
    """Return the free memory of the machine, or of the container if it has a limit."""
    free = [_bytes_of(Path("/proc/meminfo"), "MemAvailable:")]
    for folder, limit, usage, file_cache in MEMORY_LIMITS:
        total, used = _number(folder + limit), _number(folder + usage)
        if total is not None and used is not None:
            free.append(max(total - used + (value_of(Path(folder, "memory.stat"), file_cache) or 0), 0))
    return min(free)


def _bytes_of(path: Path, name: str) -> int:
    return (value_of(path, name) or 0) * KIB


def _number(file: str) -> int | None:
    try:
        return int(Path(file).read_text())
    except (OSError, ValueError):
        return None


CORES_VARIABLE = "TRAINFARE_CORES"
THREADS_VARIABLE = "OMP_NUM_THREADS"
SERVICE_CPUS_VARIABLE = "SM_NUM_CPUS"


def set_threads(environment: Mapping[str, str]) -> None:
    """Set the number of threads at the start of the job: OMP_NUM_THREADS, or at most one for each usable CPU."""
    if environment.get(THREADS_VARIABLE):
        # OpenMP allows a list, with a number for each level.
        torch.set_num_threads(int(environment[THREADS_VARIABLE].split(",")[0]))
    if not is_fixed(environment):
        # With a quota of 1.5 CPUs, two threads wait at the same time, which loses less than a missing thread.
        usable = max(1, int(min(job_cpus(), cpu_quota()) + 0.5))
        torch.set_num_threads(min(torch.get_num_threads(), usable))


def is_fixed(environment: Mapping[str, str]) -> bool:
    """Return True if somebody chose the number of threads.

    The service sets OMP_NUM_THREADS to the number of the job's CPUs. Any other number is somebody's choice.
    """
    if ranks.count() > 1 or environment.get(CORES_VARIABLE):
        return True
    threads = environment.get(THREADS_VARIABLE)
    return bool(threads) and threads != environment.get(SERVICE_CPUS_VARIABLE)


def cpu_quota(root: Path = Path("/")) -> float:
    """Return the CPU limit of the container, in CPUs, from version 2 or 1 of control groups; infinite without one."""
    mount = root / "sys" / "fs" / "cgroup"
    try:
        if (mount / "cpu.max").is_file():
            quota, period = (mount / "cpu.max").read_text().split()
        else:
            quota, period = ((mount / "cpu" / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return math.inf if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf
