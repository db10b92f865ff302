"""The processes of a job, on one host or several: their ranks, exchanges between them, and the signal to stop.

Launchers pass the ranks in environment variables. The service stores the checkpoint folders of all hosts under one
address, so only the first host writes checkpoints."""

import os
import signal
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from transformers import PreTrainedModel


RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK")
COUNT_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
LOCAL_COUNT_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Variable with the folder in which torch keeps what it compiled, and from which it runs programs."""

Value = TypeVar("Value")


def rank() -> int:
    """Return the rank of this process, from 0."""
    return _first_set(RANK_VARIABLES, 0)


def count() -> int:
    return _first_set(COUNT_VARIABLES, 1)


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


def _first_set(variables: Sequence[str], otherwise: int) -> int:
    return next((int(os.environ[variable]) for variable in variables if os.environ.get(variable)), otherwise)


def gather(value: Value) -> list[Value]:
    """Return the values of all processes, by rank. All processes must call this at the same point."""
    if count() == 1:
        return [value]
    import torch

    values: list[Any] = [None] * count()
    torch.distributed.all_gather_object(values, value)
    return values


def sum_over_processes(values: Sequence[float], device: object) -> list[float]:
    """Return the sums over all processes. All processes must call this at the same point."""
    if count() == 1:
        return list(values)
    import torch

    sums = torch.tensor(list(values), dtype=torch.float64, device=device)
    torch.distributed.all_reduce(sums)
    return [float(value) for value in sums.tolist()]


def wait_for_all() -> None:
    """Wait until every process has called this."""
    if count() == 1:
        return
    import torch

    torch.distributed.barrier()


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


def configure_host(environment: "MutableMapping[str, str]" = os.environ) -> None:
    """Set the environment variables that differ between hosts.

    Call it before compiling and before the processes connect.
    """
    if not on_several_hosts():
        return
    if environment.get(CACHE_VARIABLE):
        host = environment.get("SM_CURRENT_HOST") or environment.get("GROUP_RANK", "0")
        environment[CACHE_VARIABLE] = str(Path(environment[CACHE_VARIABLE]) / host)
    if environment.get("SM_NETWORK_INTERFACE_NAME"):
        # By default, gloo uses the address of the host's name, which other hosts may not be able to reach.
        environment.setdefault("GLOO_SOCKET_IFNAME", environment["SM_NETWORK_INTERFACE_NAME"])


def gather_random_states(checkpoint: Path) -> None:
    """Collect the random states of all processes in the checkpoint that the first host writes.

    Every process calls this after writing its own states under Trainer's file name. Returns when all processes have
    called it.
    """
    if not on_several_hosts():
        wait_for_all()
        return

    def states_file(number: int) -> Path:
        return checkpoint / f"rng_state_{number}.pth"

    own: bytes | None = None
    if not on_first_host():
        file = states_file(rank())
        own = file.read_bytes()
        file.unlink()
    states = gather(own)
    if rank() == 0:
        for sender, content in enumerate(states):
            if content is not None:
                states_file(sender).write_bytes(content)


def broadcast_weights(model: "PreTrainedModel") -> None:
    """Copy the first process's weights to all others if there are several hosts, which cannot share files."""
    if not on_several_hosts():
        return
    import torch

    for tensor in model.state_dict().values():
        torch.distributed.broadcast(tensor, src=0)


POLL_SECONDS = 0.05


class StopRequest:
    """Request to stop the job, by SIGTERM. A job with checkpoints finishes its step and saves; others end immediately.

    A separate thread waits for the signal. The main thread may be waiting for a device or another process, and cannot
    run a signal handler then.
    """

    def __init__(self, end_process: Callable[[], object], another_failed: Callable[[], bool] = lambda: False) -> None:
        """Store the callbacks.

        `end_process` reports the stop and ends the process. `another_failed` returns True when another process has
        failed, so that the processes can no longer finish a step together.
        """
        self.is_requested = False
        self._may_finish_step = False
        self._shared: SharedFlag | None = None
        self._end_process, self._another_failed = end_process, another_failed
        self._end_lock = threading.Lock()

    def install(self) -> None:
        """Handle SIGTERM from now on.

        Call this before any other thread starts: threads inherit the blocked signal, which leaves it to this object's
        thread.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="stop request", daemon=True).start()

    def allow_finishing_step(self) -> None:
        """Make later stops finish the step and save a checkpoint. All processes must call this together."""
        self._shared = SharedFlag() if count() > 1 else None
        self._may_finish_step = True

    def end_if_requested(self) -> None:
        """Announce that no step follows, and end the process if a stop was requested."""
        self._may_finish_step = False
        if self.is_requested:
            self.claim_end()
            self._end_process()

    def should_stop(self) -> bool:
        """Return True if the training should stop at this step.

        All processes must call this at the same step. It returns the same value in all of them.
        """
        if not self._may_finish_step:
            return False
        if self._shared is not None:
            agreed = bool(self._shared.raised_before(self.is_requested))
            self.is_requested = self.is_requested or agreed
            return agreed
        return self.is_requested

    def claim_end(self) -> None:
        """Return only in the first thread that calls this, which may then report the outcome.

        Other threads block until the process exits.
        """
        self._end_lock.acquire()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.is_requested = True
        while self._may_finish_step and not self._another_failed():
            time.sleep(POLL_SECONDS)
        self.claim_end()
        self._end_process()
