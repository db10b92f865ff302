"""Run a job's command in a container that is started as SageMaker starts it: `container.py ARGUMENT...`.

The command is the job's interpreter with these arguments. The container's process 1 is the request's entry point or the
image's, in a PID namespace of its own. A stop sends SIGTERM to process 1 alone, and Linux drops a signal for which a
process 1 has no handler. Where this user may not create namespaces, this program drops it in the same case. Standard
library only.

Variables: EMULATED_ENTRY, the entry point with its arguments as JSON; EMULATED_PYTHON, the job's interpreter;
EMULATED_INTERPRETER, an interpreter that runs the container's own programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

IMAGE = Path(__file__).resolve().parent
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TORCHRUN = "torch.distributed.run"


def main() -> None:
    entry, python = json.loads(os.environ.pop("EMULATED_ENTRY")), os.environ.pop("EMULATED_PYTHON")
    interpreter = os.environ.pop("EMULATED_INTERPRETER")
    os.environ.pop("TRAINFARE_PYTHON")
    command = [python, *sys.argv[1:]]
    if TORCHRUN in command:
        # Its processes must be its children, in the container, which a fork server's are not.
        command[0], os.environ["PYTHON_EXEC"] = interpreter, python
    os.environ["EMULATED_COMMAND"] = json.dumps(command)
    # `python` is that of the image; the job's own starts with the command.
    folders = [str(IMAGE), *(each for each in os.environ["PATH"].split(os.pathsep) if each != str(IMAGE))]
    os.environ["PATH"] = os.pathsep.join([*folders[:1], str(Path(interpreter).parent), *folders[1:]])
    isolated = can_isolate()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    container = subprocess.Popen(
        [*(NAMESPACE if isolated else ()), *entry],
        close_fds=False,
        start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}),
    )
    signal.signal(signal.SIGTERM, lambda *_: stop(container.pid, isolated=isolated))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    code = container.wait()
    sys.exit(code if code >= 0 else 128 - code)


def can_isolate() -> bool:
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def stop(container: int, *, isolated: bool) -> None:
    """Send SIGTERM to process 1, as a stop of the container does."""
    first = first_process(container) if isolated else container
    if first is not None and (isolated or has_handler(first)):
        os.kill(first, signal.SIGTERM)


def first_process(parent: int) -> int | None:
    """Return the process 1 of a namespace, which is the child of `unshare`. None if the container has ended."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            return None
        if children:
            return int(children[0])
        time.sleep(0.01)
    return None


def has_handler(process: int) -> bool:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


if __name__ == "__main__":
    main()
