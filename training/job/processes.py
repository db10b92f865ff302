"""The processes of one job: launchers tell each process its number in the environment."""

import os
import sys
from typing import List, Sequence

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK")
COUNT_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")


def rank() -> int:
    """Return the number of this process, from 0."""
    return _xla("get_ordinal") if _under_xla() else _first(RANK_VARIABLES, 0)


def count() -> int:
    """Return the number of processes."""
    return _xla("xrt_world_size") if _under_xla() else _first(COUNT_VARIABLES, 1)


def sum_over_processes(values: Sequence[float], device: object) -> List[float]:
    """Return the sums over all processes; all of them must call it at the same point."""
    if count() == 1:
        return list(values)
    if _under_xla():
        # Its batches are always full and equally many.
        return [value * count() for value in values]
    import torch

    sums = torch.tensor(list(values), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(sums)
    return [float(value) for value in sums.tolist()]


def _first(variables: Sequence[str], otherwise: int) -> int:
    return next((int(os.environ[variable]) for variable in variables if os.environ.get(variable)), otherwise)


def _under_xla() -> bool:
    """Tell whether torch_xla's launcher started this process; it has imported torch_xla by then."""
    return "torch_xla" in sys.modules


def _xla(call: str) -> int:
    import torch_xla.core.xla_model as xm

    return int(getattr(xm, call)())
