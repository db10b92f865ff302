"""Program that starts the script on one of several simulated instances, like SageMaker and its toolkit.

It sets the host names and runs torchrun with the options of the toolkit's `torch_distributed.py`. There the address of
the first instance is algo-1:7777; here it is localhost with the job's own port. Its processes must be its children, in
the container, which a fork server's are not: the real interpreter runs torchrun. Standard library only.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    spec = json.loads(os.environ.pop("EMULATED_MACHINE"))
    hosts = [f"algo-{number}" for number in range(1, spec["hosts"] + 1)]
    _set_hosts(hosts, hosts[spec["host"]])
    # The simulated instances share the cores of this machine.
    cores = len(os.sched_getaffinity(0)) // (len(hosts) * max(1, spec["processes"]))
    os.environ["OMP_NUM_THREADS"] = str(max(1, cores))
    command = [sys.executable]
    if spec["processes"]:
        os.environ["PYTHON_EXEC"], command = sys.executable, [spec["interpreter"]]
        command += ["-m", "torch.distributed.run", "--nnodes", str(len(hosts))]
        command += ["--nproc_per_node", str(spec["processes"]), "--node_rank", str(spec["host"])]
        command += ["--master_addr", "127.0.0.1", "--master_port", str(spec["port"])]
    os.execv(command[0], [*command, spec["program"], *sys.argv[1:]])


def _set_hosts(hosts: "list[str]", current: str) -> None:
    file = Path(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json")
    config = {**json.loads(file.read_text()), "hosts": hosts, "current_host": current}
    file.write_text(json.dumps(config))
    os.environ["SM_RESOURCE_CONFIG"] = json.dumps(config)
    os.environ["SM_HOSTS"] = json.dumps(hosts)
    os.environ["SM_CURRENT_HOST"] = os.environ["CURRENT_HOST"] = current


if __name__ == "__main__":
    main()
