"""Process that imports the heavy packages once, and forks a child for each program that a launcher requests.

    python -u -P server.py LISTENING_FD ALIVE_FD PACKAGES

PACKAGES is the JSON of an `interpreter.Server`.

`interpreter.py` starts it; the launchers of `launcher.py` are its clients. It must be single-threaded, because a fork
copies only one thread. ALIVE_FD is the read end of a pipe: the server ends when the test process closes the other end.
Imports only the standard library.
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

FIRST_TEMPORARY = 600
"""The child uses descriptors from this number on while it moves the received ones to their places."""


class ForkServer:
    """The waiting launchers, and their running children."""

    def __init__(self, listener: socket.socket, alive: int) -> None:
        self._listener, self._alive = listener, alive
        self._poll = select.poll()
        self._launchers: dict[int, tuple[socket.socket, int]] = {}
        """Descriptor of a launcher's connection -> the connection and the pidfd of the launcher's child."""
        self._children: dict[int, socket.socket] = {}
        """pidfd of a child -> the connection of its launcher."""
        for descriptor in (listener.fileno(), alive):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> dict[str, Any] | None:
        """Fork for every request. Return the request in the child, and None in the server when the tests end."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._alive:
                    return None
                if descriptor == self._listener.fileno():
                    if request := self._accept_and_fork():
                        return request
                elif descriptor in self._children:
                    self._reap(descriptor)
                elif descriptor in self._launchers:
                    self._signal_child_of(descriptor)

    def _accept_and_fork(self) -> dict[str, Any] | None:
        """Fork for the next launcher. Return its request in the child, and None in the server."""
        connection, _ = self._listener.accept()
        request = receive(connection)
        if request is None:
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            return request
        for each in request["descriptors"].values():
            os.close(each)
        child = os.pidfd_open(pid)
        self._children[child] = connection
        self._launchers[connection.fileno()] = (connection, child)
        for descriptor in (child, connection.fileno()):
            self._poll.register(descriptor, select.POLLIN)
        answer(connection, {"started": True})
        return None

    def _reap(self, child: int) -> None:
        status = os.waitid(os.P_PIDFD, child, os.WEXITED | os.WNOHANG)
        if status is None:
            return  # The event belongs to an earlier child, whose descriptor had the same number.
        connection = self._children.pop(child)
        self._poll.unregister(child)
        os.close(child)
        if self._launchers.pop(connection.fileno(), None):
            self._poll.unregister(connection)
        answer(connection, {"exit" if status.si_code == os.CLD_EXITED else "signal": status.si_status})
        connection.close()

    def _signal_child_of(self, launcher: int) -> None:
        """Pass on the signals of a launcher. Kill the child of one that was killed: the two represent one process."""
        connection, child = self._launchers[launcher]
        numbers = b""
        try:
            numbers = connection.recv(100, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # The event belongs to an earlier launcher, whose descriptor had the same number.
        except ConnectionError:
            pass  # The launcher was killed before it had read the answer.
        if not numbers:
            del self._launchers[launcher]
            self._poll.unregister(connection)
        with contextlib.suppress(ProcessLookupError):
            for number in numbers or (signal.SIGKILL,):
                signal.pidfd_send_signal(child, number)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Return a launcher's request with its descriptors, or None if the launcher was killed."""
    content, descriptors = b"", array.array("i")
    with contextlib.suppress(ConnectionError):
        length, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(4 * 250))
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        missing = int.from_bytes(length, "big") if len(length) == 4 else 0
        while missing and (part := connection.recv(missing)):
            content += part
            missing -= len(part)
        if content and not missing:
            request: dict[str, Any] = json.loads(content)
            request["descriptors"] = dict(zip(request["descriptors"], descriptors, strict=True))
            return request
    # With these open, a process that waits for the end of the launcher's output would wait forever.
    for each in descriptors:
        os.close(each)
    return None


def answer(connection: socket.socket, message: dict[str, int | bool]) -> None:
    # `serve` handles launchers that were killed.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def take_over_process_state(request: dict[str, Any]) -> None:
    """Apply the launcher's descriptors, folder, environment, limits, cores and signals to this process."""
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
    copies = {
        number: fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, FIRST_TEMPORARY)
        for number, received in descriptors.items()
    }
    os.closerange(0, FIRST_TEMPORARY)
    for number, copy in copies.items():
        os.dup2(copy, number, inheritable=True)
        os.close(copy)


def take_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    # Services find a job's processes by their environment. /proc shows it where it was in memory at the start.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    content = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    ctypes.memmove(start, content[: end - start].ljust(end - start, b"\0"), end - start)


def reseed() -> None:
    """Seed NumPy again, which was seeded at its import, and set torch's threads. `random` seeds itself after a fork."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    threads = os.environ.get("OMP_NUM_THREADS")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads) if threads else len(os.sched_getaffinity(0)))


def run(arguments: list[str], safe_path: bool) -> None:
    """Run the program as the interpreter does with these arguments: `-m MODULE`, `-c CODE` or a script.

    `safe_path` is the interpreter's option `-P`. It has an effect on `-m MODULE` only.
    """
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if arguments[0] == "-m":
        if not safe_path:
            sys.path.insert(0, str(Path.cwd()))
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *arguments[2:]]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(module))
    else:
        sys.path.insert(0, str(Path(arguments[0]).parent.resolve()))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def import_packages(packages: dict[str, Any]) -> None:
    """Import the preloaded packages. Then remove those to reload from `sys.modules`, but not their own imports."""
    sys.path[:0] = packages["folders"]
    for name in packages["preloaded"]:
        importlib.import_module(name)
    for module, function, *arguments in packages["cached_calls"]:
        getattr(importlib.import_module(module), function)(*arguments)
    del sys.path[: len(packages["folders"])]
    for name in list(sys.modules):
        if any(f"{name}.".startswith(f"{each}.") for each in packages["reloaded"]):
            del sys.modules[name]


def main() -> None:
    listener, alive = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    import_packages(json.loads(sys.argv[3]))
    # Arrow's allocator starts its thread again after a fork.
    threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    lost = [name for name in threads if name != "jemalloc_bg_thd"][1:]
    assert not lost, f"a fork would lose the threads {lost}"
    gc.collect()
    gc.freeze()
    request = ForkServer(listener, alive).serve()
    if request is None:
        return
    listener.detach()
    take_over_process_state(request)
    run(request["arguments"], request["safe_path"])


if __name__ == "__main__":
    main()
