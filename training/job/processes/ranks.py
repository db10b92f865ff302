"""Ranks of a job's processes, and exchanges between them. Launchers pass the ranks in environment variables."""

import os
from typing import Any, List, Optional, Sequence

from processes import xla_processes

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK")
COUNT_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
LOCAL_COUNT_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


def rank() -> int:
    """Return the rank of this process, from 0."""
    return xla_processes.rank() if xla_processes.under_spawner() else _first_set(RANK_VARIABLES, 0)


def count() -> int:
    """Return the number of processes."""
    return xla_processes.count() if xla_processes.under_spawner() else _first_set(COUNT_VARIABLES, 1)


def local_count() -> int:
    """Return the number of processes on this host."""
    return _first_set(LOCAL_COUNT_VARIABLES, count())


def local_rank() -> int:
    """Return the rank of this process on its host, from 0."""
    return _first_set(LOCAL_RANK_VARIABLES, rank())


def on_several_hosts() -> bool:
    """Return True if the processes run on more than one host."""
    return count() > local_count()


def on_first_host() -> bool:
    """Return True if this process runs on the same host as rank 0. Launchers assign ranks host by host."""
    return rank() == local_rank()


def gather(value: Any) -> List[Any]:
    """Return the values of all processes, by rank. All processes must call this at the same point."""
    if count() == 1:
        return [value]
    import torch

    values: List[Any] = [None] * count()
    torch.distributed.all_gather_object(values, value)
    return values


def sum_over_processes(values: Sequence[float], device: object) -> List[float]:
    """Return the sums over all processes. All processes must call this at the same point."""
    if count() == 1:
        return list(values)
    if xla_processes.under_spawner():
        # Under the spawner, batches are always full, and all processes have the same number of them.
        return [value * count() for value in values]
    import torch

    sums = torch.tensor(list(values), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(sums)
    return [float(value) for value in sums.tolist()]


def wait_for_all() -> None:
    """Wait until every process has called this."""
    if count() == 1:
        return
    if xla_processes.under_spawner():
        xla_processes.rendezvous("wait_for_all")
        return
    import torch

    torch.distributed.barrier()


def can_exchange_flags() -> bool:
    """Return True if the processes can share a flag. The spawner's cannot without waiting for devices."""
    return count() == 1 or not xla_processes.under_spawner()


def shared_flag() -> "Optional[SharedFlag]":
    """Return a flag that all processes share, or None for a single process. All processes must call this."""
    return SharedFlag() if count() > 1 else None


class SharedFlag:
    """Flag that is raised for all processes at the same step, one step after any of them raised it.

    The CPUs exchange it while the devices compute, so that no process waits for its device.
    """

    def __init__(self) -> None:
        import torch

        self._group = torch.distributed.new_group(backend="gloo")
        self._flag: Any = None
        self._exchange: Any = None

    def raised_before(self, raised: bool) -> bool:
        """Raise the flag if `raised` is True. Return True if any process had raised it by the previous call."""
        import torch

        if self._exchange is not None:
            self._exchange.wait()
        before = self._flag is not None and bool(self._flag.item())
        # A raised flag stays raised, because the processes may receive their signals at different times.
        self._flag = torch.tensor(int(raised or before))
        maximum = torch.distributed.ReduceOp.MAX
        self._exchange = torch.distributed.all_reduce(self._flag, op=maximum, group=self._group, async_op=True)
        return before


def _first_set(variables: Sequence[str], otherwise: int) -> int:
    return next((int(os.environ[variable]) for variable in variables if os.environ.get(variable)), otherwise)
