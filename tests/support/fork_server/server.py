"""Process that has imported the heavy packages once, and forks a child for each program it is asked to run.

    python -u -P server.py LISTENING_FD ALIVE_FD PACKAGES

PACKAGES is the JSON of an `interpreter.Server`.

Started by `interpreter.py`; its clients are the launchers of `launcher.py`. It stays single-threaded, so that a fork
copies all of it. It ends when ALIVE_FD, the read end of a pipe, is closed by the test process. Standard library only.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any

HIGH = 600
"""Descriptors from here on are free for the child's use while it puts its own in place."""


def serve(listener: socket.socket, alive: int) -> dict[str, Any] | None:
    """Fork for every request; return the request in the child, and None in the server once nobody needs it."""
    poll = select.poll()
    for descriptor in (listener.fileno(), alive):
        poll.register(descriptor, select.POLLIN)
    connections: dict[int, tuple[socket.socket, int]] = {}
    pids: dict[int, tuple[socket.socket, int]] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == alive:
                return None
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                request = receive(connection)
                if request is None:
                    connection.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    return request
                for each in request["descriptors"].values():
                    os.close(each)
                process = os.pidfd_open(pid)
                pids[process] = connections[connection.fileno()] = (connection, process)
                poll.register(process, select.POLLIN)
                poll.register(connection, select.POLLIN)
                answer(connection, {"pid": pid})
            elif descriptor in pids:
                ended, _ = pids.pop(descriptor)
                poll.unregister(descriptor)
                status = os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
                os.close(descriptor)
                assert status
                if connections.pop(ended.fileno(), None):
                    poll.unregister(ended)
                key = "exit" if status.si_code == os.CLD_EXITED else "signal"
                answer(ended, {key: status.si_status})
                ended.close()
            elif descriptor in connections:
                # The launcher was killed, and so is what it stands for.
                gone, process = connections.pop(descriptor)
                poll.unregister(gone)
                signal.pidfd_send_signal(process, signal.SIGKILL)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Return a launcher's request with the descriptors that came with it, or None when the launcher is gone."""
    content, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(4 * 250))
    if len(content) < 4:
        return None
    received = array.array("i")
    for _, _, data in ancillary:
        received.frombytes(data)
    remaining = int.from_bytes(content, "big")
    parts = []
    while remaining:
        part = connection.recv(remaining)
        if not part:
            return None
        parts.append(part)
        remaining -= len(part)
    request: dict[str, Any] = json.loads(b"".join(parts))
    request["descriptors"] = dict(zip(request["descriptors"], received, strict=True))
    return request


def answer(connection: socket.socket, message: dict[str, int]) -> None:
    # A launcher that was killed is noticed at its end of the connection.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def become(request: dict[str, Any]) -> None:
    """Take on what the launcher had: descriptors, folder, environment, limits, cores, signals."""
    os.setsid()
    take_descriptors(request["descriptors"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    take_environment(request["environment"])
    os.sched_setaffinity(0, request["cores"])
    for name, limits in request["limits"].items():
        resource.setrlimit(int(name), tuple(limits))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.executable = request["launcher"]
    reseed()


def take_descriptors(descriptors: dict[int, int]) -> None:
    high = {number: fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, HIGH) for number, received in descriptors.items()}
    os.closerange(0, HIGH)
    for number, copy in high.items():
        os.dup2(copy, number, inheritable=True)
        os.close(copy)


def take_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    # Services find the processes of a job by their environment, which /proc shows as it lay when a program started.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    content = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    ctypes.memmove(start, content[: end - start].ljust(end - start, b"\0"), end - start)


def reseed() -> None:
    """Draw anew what a package seeded when it was imported; `random` does so by itself."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    threads = os.environ.get("OMP_NUM_THREADS")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads) if threads else len(os.sched_getaffinity(0)))


def run(words: list[str]) -> None:
    """Run the program as the interpreter does with these words: `-m MODULE`, `-c CODE` or a script."""
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if words[0] == "-m":
        sys.path.insert(0, str(Path.cwd()))
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[2:]]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(module))
    else:
        sys.path.insert(0, str(Path(words[0]).parent.resolve()))
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def import_packages(packages: dict[str, Any]) -> None:
    """Import packages, and forget those that read the environment as they are imported, but not what they import."""
    sys.path[:0] = packages["folders"]
    for name in packages["imported"]:
        importlib.import_module(name)
    del sys.path[: len(packages["folders"])]
    for name in list(sys.modules):
        if any(f"{name}.".startswith(f"{each}.") for each in packages["forgotten"]):
            del sys.modules[name]


def main() -> None:
    listener, alive = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    import_packages(json.loads(sys.argv[3]))
    # Arrow's allocator starts its thread anew after a fork.
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    lost = [name for name in threads if name != "jemalloc_bg_thd"][1:]
    assert not lost, f"a fork would lose the threads {lost}"
    gc.collect()
    gc.freeze()
    request = serve(listener, alive)
    if request is None:
        return
    listener.detach()
    become(request)
    run(request["words"])


if __name__ == "__main__":
    main()
