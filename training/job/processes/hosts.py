"""Several machines of one job: what each keeps to itself, and what the first one keeps for all.

The service keeps the folders for checkpoints of all machines under one address, so only the first machine writes there.
"""

import os
from pathlib import Path
from typing import Any, MutableMapping, Optional

from processes import ranks

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def settle_in(environment: "MutableMapping[str, str]" = os.environ) -> None:
    """Set what each machine needs of its own; before anything is compiled and before the processes meet."""
    if not ranks.on_several_machines():
        return
    if environment.get(CACHE_VARIABLE):
        host = environment.get("SM_CURRENT_HOST") or environment.get("GROUP_RANK", "0")
        environment[CACHE_VARIABLE] = str(Path(environment[CACHE_VARIABLE]) / host)
    if environment.get("SM_NETWORK_INTERFACE_NAME"):
        # Otherwise gloo takes the address of the machine's name, which may be one that others cannot reach.
        environment.setdefault("GLOO_SOCKET_IFNAME", environment["SM_NETWORK_INTERFACE_NAME"])


def bring_random_states(checkpoint: Path) -> None:
    """Bring the random states of all processes to the checkpoint that the first machine writes.

    Every process comes here, having written its own under Trainer's name for it; returns once all have.
    """
    if not ranks.on_several_machines() or not ranks.can_agree():
        ranks.wait_for_all()
        return
    states = ranks.gathered(_sent(checkpoint))
    if ranks.rank() == 0:
        for rank, content in enumerate(states):
            if content is not None:
                _states_file(checkpoint, rank).write_bytes(content)


def share_weights(model: Any) -> None:
    """Give every process the weights of the first one, where machines cannot read each other's files."""
    if not ranks.on_several_machines():
        return
    import torch

    for tensor in model.state_dict().values():
        torch.distributed.broadcast(tensor, src=0)


def _sent(checkpoint: Path) -> Optional[bytes]:
    """Return this process's states and leave none here; None where they stand in the right place already."""
    if ranks.on_first_machine():
        return None
    file = _states_file(checkpoint, ranks.rank())
    content = file.read_bytes()
    file.unlink()
    return content


def _states_file(checkpoint: Path, rank: int) -> Path:
    return checkpoint / f"rng_state_{rank}.pth"
