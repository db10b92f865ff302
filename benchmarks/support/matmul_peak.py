"""This machine's peak speed in matrix products, measured in a separate process: the reference for utilisation."""

from __future__ import annotations

import subprocess
import sys

SIDE = 2048
ROUNDS = 9


def peak_flops_per_second(precision: str) -> float:
    """Return the best FLOP/s of several products of two square matrices. `precision` is `bf16` or `fp32`."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.support.matmul_peak", precision], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main(precision: str) -> None:
    """Measure and print FLOP/s."""
    import torch
    from torch.utils.benchmark import Timer

    kind = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    left, right = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
    timer = Timer("left @ right", globals={"left": left, "right": right}, num_threads=torch.get_num_threads())
    print(2 * SIDE**3 / min(timer.timeit(1).mean for _ in range(ROUNDS)))


if __name__ == "__main__":
    main(sys.argv[1])
