"""Process 1 of a container on SageMaker: start the image's own entry point, and pass SIGTERM on to the training.

`entry_point.py` sends this program with each request. It runs in the image's Python, from 3.6 on, so it imports only
the standard library and uses no newer syntax.

The processes of a job form a tree: this program, the image's bash, the toolkit's `train`, a shell, a launcher, and the
training's processes, which may have children, such as data workers. Only the uppermost processes of the training get
the signal. bash and `train` would die of it, and `train` passes the log on. mpirun would kill the training at once and
torchrun after 30 s. A data worker would die of it too, and its training would fail.

Sources: aws/deep-learning-containers (2026-08-21), scripts/docker/pytorch/start_with_right_hostname.sh and
scripts/docker/huggingface/pytorch/sagemaker_entrypoint.sh; aws/sagemaker-training-toolkit 5.1.1, process.py, mpi.py,
torch_distributed.py and pytorch_xla.py.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from typing import Any, Dict, Iterator, List, Optional

SHELLS = {"sh", "bash", "dash"}
# A SIGTERM to one of these would end the training before it has saved a checkpoint, or lose its output.
LAUNCHERS = {"train", "mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "sshd", "smddprun", "smddpmprun"}
LAUNCHERS |= {"torchrun", "torch.distributed.run", "torch.distributed.launch", "torch_xla.distributed.xla_spawn"}
LAUNCHERS |= {"accelerate", "accelerate.commands.launch", "deepspeed", "deepspeed.launcher.launch"}
LAUNCHERS |= {"deepspeed.launcher.runner", "neuron_parallel_compile", "tee"}
# Its processes may be forks, with the same command line.
FORKING = {"torch_xla.distributed.xla_spawn"}
SECONDS_BETWEEN_LOOKS = 0.5
PARENT, START_TIME = 1, 19

signalled = {}  # type: Dict[str, str]


def read(pid: str, name: str) -> str:
    try:
        with open("/proc/" + pid + "/" + name, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def words_of(pid: str) -> List[str]:
    return read(pid, "cmdline").rstrip("\0").split("\0")


def name_of(words: List[str]) -> str:
    """Return the name of the program that a command line runs: a file's name, or a Python module."""
    name = ""
    for position, word in enumerate(words):
        name = os.path.basename(word.partition(":")[0])  # sshd's title is "sshd: ..."
        if word == "-m" and words[position + 1 :]:
            return words[position + 1]
        if word == "-c" or not (word.startswith("-") or re.match(r"python[0-9.]*$", name)):
            return name
    return name


def stat(pid: str, position: int) -> str:
    """Return a field of the process's state, counted from the one after its name; "" if it has ended."""
    return "".join(read(pid, "stat").rpartition(")")[2].split()[position : position + 1])


def handles_sigterm(pid: str) -> bool:
    caught = re.search(r"SigCgt:\s*(\w+)", read(pid, "status"))
    return caught is not None and bool(int(caught.group(1), 16) >> (signal.SIGTERM - 1) & 1)


def receivers(parent: str, parent_words: Optional[List[str]], children: Dict[str, List[str]]) -> Iterator[str]:
    """Yield the processes below `parent` that get the signal."""
    for pid in children.get(parent, ()):
        words = words_of(pid)
        name = name_of(words)
        if name in SHELLS:
            if handles_sigterm(pid):
                yield pid
            yield from receivers(pid, words, children)
        elif name in LAUNCHERS and not (name in FORKING and words == parent_words):
            yield from receivers(pid, words, children)
        else:
            yield pid


def forward(*_: Any) -> None:
    """Send SIGTERM to each receiver once. Look again later: a training that is still starting gets it too."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS_BETWEEN_LOOKS)
    children = {}  # type: Dict[str, List[str]]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        children.setdefault(stat(pid, PARENT), []).append(pid)
    for pid in receivers(str(os.getpid()), None, children):
        started = stat(pid, START_TIME)
        if signalled.get(pid) != started:
            signalled[pid] = started
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)


def command() -> List[str]:
    for script in ("sagemaker_entrypoint.sh", "start_with_right_hostname.sh"):
        if shutil.which(script):
            return ["bash", "-m", script, "train"]
    return ["train"]


def main() -> None:
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGALRM, forward)
    child = subprocess.Popen(command())
    while True:
        pid, status = os.wait()  # Also reaps the orphans that a process 1 inherits.
        if pid == child.pid:
            # While it shuts down, Python gives SIGALRM its default effect, and the next look could end the process.
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


if __name__ == "__main__":
    main()
