"""The paths: combinations of settings that matter on a GPU, each with what its job must report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STEPS = 40
AMPERE = (8, 0)
"""First compute capability with bf16 and with kernels of FlashAttention 2."""

EQUAL_IN_32_BITS = 0.02
EQUAL_IN_16_BITS = 0.05
"""Largest accepted differences of the evaluation loss from the reference's, in nats, after `STEPS` steps."""

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
"""Fields of all paths. Those of a path replace them."""


@dataclass(frozen=True, kw_only=True)
class GpuPath:
    """A combination of settings, and what a job with it must report."""

    name: str
    title: str
    fields: Mapping[str, str] = field(default_factory=dict)
    capability: tuple[int, int] = (0, 0)
    """Least compute capability."""
    gpus: int = 1
    package: str = ""
    """Package that must be installed."""
    loss_margin: float | None = EQUAL_IN_32_BITS
    """Largest difference of the evaluation loss from the reference's, in nats. None: it is not compared."""
    is_compiled: bool = False
    failure: str = ""
    """Class of the failure with which the job must end; "" if it must complete."""
    too_large: int | None = None
    """Batch size that a calibration must find too large; None for a training."""

    @property
    def processes(self) -> int:
        """Number of devices, each with a process, that the job must use."""
        return int(self.fields.get("machine.devices", 1))

    def job_fields(self) -> dict[str, str]:
        """Return all fields of the path's job."""
        return {**COMMON, **self.fields}


def _compiled(name: str, title: str, **fields: str) -> GpuPath:
    return GpuPath(name=f"compile-{name}", title=title, fields={"compiler": "inductor", **fields}, is_compiled=True)


TOO_LARGE = 1_500
"""Batch size whose eager attention at length 512 needs about 300 GB, more than any GPU has."""
FULL_LENGTH = {"max_length": "512", "padding": "max_length"}

PATHS = (
    GpuPath(name="fp32", title="32 bits, eager attention, no compiler: the reference of the losses"),
    GpuPath(
        name="bf16",
        title="bf16 by autocast",
        fields={"precision": "bf16"},
        capability=AMPERE,
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(name="fp16", title="fp16 with a loss scale", fields={"precision": "fp16"}, loss_margin=EQUAL_IN_16_BITS),
    GpuPath(
        name="auto",
        title="the precision, attention and optimizer that `auto` takes",
        fields={"precision": "auto", "attention": "auto", "optimizer": "auto"},
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(name="adamw", title="AdamW without the fused kernel", fields={"optimizer": "adamw"}),
    GpuPath(name="sdpa", title="attention by PyTorch's scaled dot product", fields={"attention": "sdpa"}),
    GpuPath(
        name="flash-attention",
        title="attention by FlashAttention 2",
        fields={"attention": "flash_attention_2", "precision": "bf16"},
        capability=AMPERE,
        package="flash_attn",
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(
        name="padding-free",
        title="bf16 without padding in the layers",
        # Those of the demo compare compilers, which need padding.
        fields={"padding": "none", "attention": "auto", "precision": "bf16", "compare.arms": "[{}]"},
        capability=AMPERE,
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(
        name="accumulation",
        title="gradients of two half batches added up",
        fields={"batch_size": "16", "gradient_accumulation_steps": "2"},
    ),
    _compiled("layers", "one compiled program for the layers", compile_scope="layers"),
    _compiled("model", "the whole model compiled", compile_scope="model"),
    _compiled("dynamic", "one compiled program for all lengths", compile_dynamic="true"),
    _compiled("reduce-overhead", "CUDA graphs", compile_mode="reduce-overhead"),
    _compiled("no-cudagraphs", "measured kernels without CUDA graphs", compile_mode="max-autotune-no-cudagraphs"),
    _compiled("max-autotune", "measured kernels with CUDA graphs", compile_mode="max-autotune"),
    GpuPath(
        name="two-gpus",
        title="two processes with half a batch each",
        fields={"machine.devices": "2", "batch_size": "16"},
        gpus=2,
    ),
    GpuPath(
        name="calibration",
        title="batch sizes up to one that does not fit in memory",
        fields={"calibration.batch_sizes": f"[32, {TOO_LARGE}]", **FULL_LENGTH},
        too_large=TOO_LARGE,
        loss_margin=None,
    ),
    GpuPath(
        name="out-of-memory",
        title="a training whose batch does not fit in memory",
        fields={"batch_size": str(TOO_LARGE), **FULL_LENGTH},
        failure="OutOfMemory",
        loss_margin=None,
    ),
)
REFERENCE = PATHS[0]
