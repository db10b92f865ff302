"""What SageMaker and its toolkit do on one machine of several before the script runs; becomes the launcher itself.

Tells the host names, and starts torchrun as the toolkit's `torch_distributed.py` does: there the first machine is
reached as algo-1 at port 7777, here on this machine at the job's own port. Standard library only.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    told = json.loads(os.environ.pop("EMULATED_MACHINE"))
    hosts = [f"algo-{at + 1}" for at in range(told["hosts"])]
    _tell(hosts, hosts[told["host"]])
    # The machines share the cores of this one.
    cores = len(os.sched_getaffinity(0)) // (len(hosts) * max(1, told["processes"]))
    os.environ["OMP_NUM_THREADS"] = str(max(1, cores))
    command = [sys.executable]
    if told["processes"]:
        command += ["-m", "torch.distributed.run", "--nnodes", str(len(hosts))]
        command += ["--nproc_per_node", str(told["processes"]), "--node_rank", str(told["host"])]
        command += ["--master_addr", "127.0.0.1", "--master_port", str(told["port"])]
    os.execv(sys.executable, [*command, told["program"], *sys.argv[1:]])


def _tell(hosts: "list[str]", current: str) -> None:
    file = Path(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json")
    config = {**json.loads(file.read_text()), "hosts": hosts, "current_host": current}
    file.write_text(json.dumps(config))
    os.environ["SM_RESOURCE_CONFIG"] = json.dumps(config)
    os.environ["SM_HOSTS"] = json.dumps(hosts)
    os.environ["SM_CURRENT_HOST"] = os.environ["CURRENT_HOST"] = current


if __name__ == "__main__":
    main()
