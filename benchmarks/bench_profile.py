"""Profile of a training step without a compiler: the time share of each kind of operation."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.command import train
from benchmarks.support.data import check_data
from benchmarks.support.matmul_peak import peak_flops_per_second
from benchmarks.support.profiled import Profile, profile_job
from benchmarks.support.results import Row, write
from benchmarks.support.workloads import WORKLOADS, Workload

CHOSEN = ("squad", "emotion", "emotion-bert", "sst2-gpt2")
STEPS = 12

KINDS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "linear", "mkldnn_linear", "matmul"),
    "dropout": ("random_", "native_dropout", "native_dropout_backward", "bernoulli_", "ge"),
    "optimizer": ("_fused_adamw_", "Optimizer.step", "Optimizer.zero_grad"),
    "gradient norm": ("_foreach_norm", "linalg_vector_norm", "_foreach_mul_", "stack", "dot"),
    "embeddings": ("embedding_dense_backward", "index_select", "embedding"),
    "normalisation": ("native_layer_norm", "native_layer_norm_backward"),
    "activation and softmax": (
        "gelu",
        "gelu_backward",
        "_softmax",
        "_softmax_backward_data",
        "_log_softmax",
        "exp_",
        "tanh",
        "tanh_backward",
        "pow",
    ),
    "casts and copies": ("copy_", "cat", "clone", "contiguous", "fill_", "zero_"),
    "sums and products of elements": ("add", "add_", "mul", "mul_", "div", "sum", "sub", "where", "masked_fill"),
}
"""Names of PyTorch's operations, by kind. All other operations count as `other operations`."""


def seconds_by_kind(profile: Profile) -> dict[str, float]:
    """Return the seconds of each kind of operation. Time outside of operations is Python, or waiting for data."""
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    seconds = dict.fromkeys([*KINDS, "other operations"], 0.0)
    for operation in profile.operations:
        plain = operation.name.removeprefix("aten::").partition("#")[0]
        seconds[kind_of.get(plain, "other operations")] += operation.seconds
    return {**seconds, "Python between operations": max(0.0, profile.seconds - sum(seconds.values()))}


def flops_per_step(result: Mapping[str, Any]) -> float:
    """Return the FLOP of the matrix products in an average step, padding included, from the job's metrics."""
    seconds_per_step = result["optim/global_batch_size"] / result["throughput/steady_samples_per_second"]
    return float(result["throughput/model_flops_per_second"] / result["padding/efficiency"] * seconds_per_step)


def result_rows(workload: Workload, profile: Profile, ideal_seconds: float) -> list[Row]:
    """Return the shares of a step, and the speed of its matrix products.

    `ideal_seconds` is the time of one step's matrix products at the machine's peak.
    """
    name = f"{workload.name} ({workload.model})"
    seconds = seconds_by_kind(profile)
    rows = [Row(name=f"{name}: step time", value=1e3 * profile.seconds / profile.steps, unit="ms", n=profile.steps)]
    rows += [
        Row(name=f"{name}: {kind}", value=100 * spent / profile.seconds, unit="% of the step")
        for kind, spent in sorted(seconds.items(), key=lambda item: -item[1])
    ]
    reached = ideal_seconds * profile.steps / seconds["matrix products"]
    return [*rows, Row(name=f"{name}: speed of the matrix products", value=reached, unit="of the matmul peak")]


def main(names: Sequence[str]) -> None:
    """Profile the named workloads, or the default ones."""
    check_data()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or CHOSEN):
                steps = {"compiler": "none", "max_steps": str(STEPS)}
                trained = train(Path(folder), workload.fields(**steps))
                flops = flops_per_step(trained.result())
                rows += result_rows(workload, profile_job(trained.job), flops / peak_flops_per_second("bf16"))
    write(
        "profile",
        rows,
        [
            "The experiment's defaults, measured by PyTorch's profiler from the fourth step on. The profiler slows the "
            "steps a little.",
            "Speed of the matrix products, as a share of the peak of large products: 6 FLOP for each multiplied "
            "parameter and position, divided by the time of all matrix products. Padding counts; attention's own "
            "products do not.",
            "This share would be the utilisation if all other operations took no time and nothing were padded: it "
            "bounds what faster elementwise operations, casts and optimizers can gain. Small matrices fall further "
            "short of the peak than large ones, most of all with AMX, which has the highest peak.",
        ],
        is_part=bool(names),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
