"""Jobs on several hosts: settings that differ between hosts, and files that only the first host writes.

The service stores the checkpoint folders of all hosts under one address, so only the first host writes checkpoints.
"""

import os
from pathlib import Path
from typing import Any, MutableMapping, Optional

from processes import ranks

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def configure_host(environment: "MutableMapping[str, str]" = os.environ) -> None:
    """Set the environment variables that differ between hosts.

    Call it before compiling and before the processes connect.
    """
    if not ranks.on_several_hosts():
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
    if not ranks.on_several_hosts() or not ranks.can_exchange_flags():
        ranks.wait_for_all()
        return
    states = ranks.gather(_take_states(checkpoint))
    if ranks.rank() == 0:
        for rank, content in enumerate(states):
            if content is not None:
                _states_file(checkpoint, rank).write_bytes(content)


def broadcast_weights(model: Any) -> None:
    """Copy the first process's weights to all others if there are several hosts, which cannot share files."""
    if not ranks.on_several_hosts():
        return
    import torch

    for tensor in model.state_dict().values():
        torch.distributed.broadcast(tensor, src=0)


def _take_states(checkpoint: Path) -> Optional[bytes]:
    """Read and delete this process's file of random states. Return None on the first host, where the file stays."""
    if ranks.on_first_host():
        return None
    file = _states_file(checkpoint, ranks.rank())
    content = file.read_bytes()
    file.unlink()
    return content


def _states_file(checkpoint: Path, rank: int) -> Path:
    return checkpoint / f"rng_state_{rank}.pth"
