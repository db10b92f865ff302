"""The paths: combinations of settings that matter on a GPU, each with what its job must report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.support.data import MINILM

STEPS = 40
AMPERE = (8, 0)
"""First compute capability with bf16 and with kernels of FlashAttention 2."""
ADA = (8, 9)
"""First compute capability with matrix products in 8 bits."""

EQUAL_IN_32_BITS = 0.02
EQUAL_IN_16_BITS = 0.05
EQUAL_IN_8_BITS = 0.1
OTHER_BATCHES = 0.1
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


@dataclass(frozen=True, kw_only=True)
class GpuPath:
    """A combination of settings, and what a job with it must report."""

    name: str
    title: str
    fields: Mapping[str, str] = field(default_factory=dict)
    capability: tuple[int, int] = (0, 0)
    """Lowest compute capability that supports the path."""
    gpus: int = 1
    package: str = ""
    """Package that must be installed."""
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
        """True if the job asks for more memory than a GPU has, so that jobs beside it could fail."""
        return bool(self.failure or self.too_large)

    def job_fields(self) -> dict[str, str]:
        """Return all fields of the path's job."""
        return {**COMMON, **self.fields}


ACCUMULATION = {"batch_size": "16", "gradient_accumulation_steps": "2"}


def _compiled(name: str, title: str, **fields: str) -> GpuPath:
    return GpuPath(name=f"compile-{name}", title=title, fields={"compiler": "inductor", **fields}, is_compiled=True)


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

PATHS = (
    GpuPath(name="fp32", title="32 bits, eager attention, no compiler: the reference for the losses"),
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
        title="the precision, attention and optimizer that `auto` chooses",
        fields={"precision": "auto", "attention": "auto", "optimizer": "auto"},
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(name="adamw", title="AdamW without the fused kernel", fields={"optimizer": "adamw"}),
    GpuPath(name="sdpa", title="PyTorch's scaled dot product attention", fields={"attention": "sdpa"}),
    GpuPath(
        name="flash-attention",
        title="FlashAttention 2",
        fields={"attention": "flash_attention_2", "precision": "bf16"},
        capability=AMPERE,
        package="flash_attn",
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(
        name="fp8",
        title="8 bits in the linear layers, uncompiled",
        fields={"precision": "fp8"},
        capability=ADA,
        package="torchao",
        loss_margin=EQUAL_IN_8_BITS,
    ),
    GpuPath(
        name="fp8-compiled",
        title="8 bits in the linear layers, compiled",
        fields={"precision": "fp8", "compiler": "inductor"},
        capability=ADA,
        package="torchao",
        loss_margin=EQUAL_IN_8_BITS,
        is_compiled=True,
    ),
    GpuPath(
        name="decoder",
        title="a small Llama from scratch: the reference for Liger's losses",
        fields=DECODER,
        reference="decoder",
    ),
    GpuPath(
        name="liger",
        title="the small Llama with Liger's kernels",
        fields={**DECODER, "kernels": "liger"},
        package="liger_kernel",
        reference="decoder",
    ),
    GpuPath(
        name="padding-free",
        title="bf16 without padding in the layers",
        # The demo's own arms compare compilers, which need padding.
        fields={"padding": "none", "attention": "auto", "precision": "bf16", "compare.arms": "[{}]"},
        capability=AMPERE,
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(
        name="accumulation",
        title="gradients accumulated over two half batches",
        fields=ACCUMULATION,
        loss_margin=OTHER_BATCHES,
    ),
    _compiled("layers", "one compiled program for the layers", compile_scope="layers"),
    _compiled("model", "the whole model compiled", compile_scope="model"),
    _compiled("dynamic", "one compiled program for all lengths", compile_dynamic="true"),
    _compiled("reduce-overhead", "CUDA graphs", compile_mode="reduce-overhead"),
    GpuPath(
        name="compile-accumulation",
        title="CUDA graphs with accumulated gradients",
        fields={"compiler": "inductor", "compile_mode": "reduce-overhead", **ACCUMULATION},
        is_compiled=True,
        reference="accumulation",
    ),
    _compiled(
        "no-cudagraphs",
        "autotuned kernels without CUDA graphs",
        compile_mode="max-autotune-no-cudagraphs",
        **ONE_LENGTH,
    ),
    _compiled("max-autotune", "autotuned kernels with CUDA graphs", compile_mode="max-autotune", **ONE_LENGTH),
    GpuPath(
        name="two-gpus",
        title="two processes with half a batch each",
        fields={"machine.devices": "2", "batch_size": "16"},
        gpus=2,
    ),
    GpuPath(
        name="two-gpus-sharded",
        title="two processes with half a batch and half of each weight (FSDP2)",
        fields={"machine.devices": "2", "batch_size": "16", "sharding": "fsdp2"},
        gpus=2,
    ),
    GpuPath(
        name="sharded",
        title="FSDP2 in a single process",
        fields={"sharding": "fsdp2", "precision": "bf16"},
        capability=AMPERE,
        loss_margin=EQUAL_IN_16_BITS,
    ),
    GpuPath(
        name="sharded-compiled",
        title="FSDP2 in a single process, one compiled program for the layers",
        fields={"sharding": "fsdp2", "compiler": "inductor"},
        is_compiled=True,
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
