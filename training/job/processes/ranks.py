"""The processes of one job: launchers tell each process its number in the environment."""

import os
import sys
from typing import Any, List, Optional, Sequence

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK")
COUNT_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
LOCAL_COUNT_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(_xla("get_ordinal")) if _under_xla() else _first(RANK_VARIABLES, 0)


def count() -> int:
    """Return the number of processes."""
    return int(_xla("xrt_world_size")) if _under_xla() else _first(COUNT_VARIABLES, 1)


def count_here() -> int:
    """Return the number of processes on this machine."""
    return _first(LOCAL_COUNT_VARIABLES, count())


def on_several_machines() -> bool:
    """Tell whether the processes are spread over machines."""
    return count() > count_here()


def on_first_machine() -> bool:
    """Tell whether the first process runs on this machine, too: launchers count on from machine to machine."""
    return rank() == _first(LOCAL_RANK_VARIABLES, rank())


def gathered(value: Any) -> List[Any]:
    """Return the values of all processes, by rank; all of them must call it at the same point."""
    if count() == 1:
        return [value]
    import torch

    values: List[Any] = [None] * count()
    torch.distributed.all_gather_object(values, value)
    return values


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


def wait_for_all() -> None:
    """Return once every process has come here."""
    if count() == 1:
        return
    if _under_xla():
        _xla("rendezvous", "wait_for_all")
        return
    import torch

    torch.distributed.barrier()


def can_agree() -> bool:
    """Tell whether the processes can share a flag. Those of XLA cannot without waiting for their devices."""
    return count() == 1 or not _under_xla()


def shared_flag() -> "Optional[SharedFlag]":
    """Return a flag that all processes share, or None for a single process; all of them must call it."""
    return SharedFlag() if count() > 1 else None


class SharedFlag:
    """Whether any process has raised its flag, known to all at the same step and one step late.

    The processors exchange it among themselves while the devices compute: no device is waited for.
    """

    def __init__(self) -> None:
        import torch

        self._group = torch.distributed.new_group(backend="gloo")
        self._flag: Any = None
        self._exchange: Any = None

    def raised_before(self, raised: bool) -> bool:
        """Return whether any process had raised its flag at the call before this one."""
        import torch

        if self._exchange is not None:
            self._exchange.wait()
        before = self._flag is not None and bool(self._flag.item())
        # Once known to be raised it stays so: the processes may come by their own signals at different times.
        self._flag = torch.tensor(int(raised or before))
        maximum = torch.distributed.ReduceOp.MAX
        self._exchange = torch.distributed.all_reduce(self._flag, op=maximum, group=self._group, async_op=True)
        return before


def _first(variables: Sequence[str], otherwise: int) -> int:
    return next((int(os.environ[variable]) for variable in variables if os.environ.get(variable)), otherwise)


def _under_xla() -> bool:
    """Tell whether torch_xla's launcher started this process; it has imported torch_xla by then."""
    return "torch_xla" in sys.modules


def _xla(call: str, *words: str) -> Any:
    import torch_xla.core.xla_model as xm

    return getattr(xm, call)(*words)
