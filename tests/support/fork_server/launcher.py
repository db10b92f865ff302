"""Replacement for the Python interpreter that lets a fork server run the program if possible.

`interpreter.py` copies this file and adds a first line with the interpreter's path. The launcher passes everything that
a program inherits to a child of the server, forwards signals, and ends as the child does. If no server can run the
program as the interpreter would, the interpreter runs it. Imports only a few modules of the standard library, because
their import is the cost of each start.
"""

# ruff: noqa: PTH100, PTH109, PTH110, PTH118, PTH120, PTH123, PTH208

import json
import os
import resource
import signal
import socket
import sys

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
MEMORY_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
"""Limits under which imports may fail. Only the real interpreter, which imports everything, fails in the same way."""


def main() -> None:
    name, arguments = choose_server(sys.argv[1:])
    if name is None:
        os.execv(SETTINGS["interpreter"], [SETTINGS["interpreter"], *sys.argv[1:]])
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(SETTINGS["servers"][name]["socket"])
            send_request(connection, arguments, list(blocked))
            answers = connection.makefile("rb")
            answers.readline() or fail(name)  # the child has started
        except ConnectionError:
            fail(name)
        for number in FORWARDED:
            signal.signal(number, lambda number, _: forward(number, connection))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        outcome = json.loads(answers.readline() or '{"exit": 255}')
    if "exit" in outcome:
        os._exit(outcome["exit"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if outcome["signal"] not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(outcome["signal"], signal.SIG_DFL)
    os.kill(os.getpid(), outcome["signal"])


def forward(number, connection):  # type: ignore[no-untyped-def]
    """Have the server signal the child: in a PID namespace, this process cannot reach it."""
    try:  # noqa: SIM105 - contextlib would be one more import at each start
        connection.sendall(bytes([number]))
    except OSError:
        pass  # the child has ended


def fail(name):  # type: ignore[no-untyped-def]
    """Exit with the end of the server's log."""
    with open(f"{SETTINGS['servers'][name]['socket']}.log") as log:
        sys.exit(f"The fork server '{name}' has ended: {log.read()[-2000:]}")


def choose_server(arguments):  # type: ignore[no-untyped-def]
    """Return the name of a server that can run the program, or None, and the arguments without those of Python."""
    arguments = list(arguments)
    while arguments and arguments[0] in ("-u", "-P", "--"):
        arguments.pop(0)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
        return None, arguments
    if any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in MEMORY_LIMITS):
        return None, arguments
    for name, server in SETTINGS["servers"].items():
        if can_run(server, arguments) and all(os.environ.get(each) == value for each, value in read_at_import(server)):
            return name, arguments
    return None, arguments


def can_run(server, arguments):  # type: ignore[no-untyped-def]
    if server["marker_file"]:
        # The job blocks packages in its process, which only scripts in the job's folder expect.
        scripts = [each for each in arguments if each.endswith(".py")]
        return any(os.path.exists(os.path.join(os.path.dirname(each), server["marker_file"])) for each in scripts)
    return arguments[0] == "-m" and arguments[1] in server["modules"]


def read_at_import(server):  # type: ignore[no-untyped-def]
    """Yield the variables that packages may read when they are imported, with the server's values."""
    names = {*server["environment"], *os.environ}
    for name in names:
        if name.startswith(tuple(server["variables"])) and name not in SETTINGS["not_read_at_import"]:
            yield name, server["environment"].get(name)


def send_request(connection, arguments, blocked):  # type: ignore[no-untyped-def]
    descriptors = [int(each) for each in os.listdir("/proc/self/fd")]
    descriptors = [each for each in descriptors if each != connection.fileno() and is_open(each)]
    limits = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    request = {
        "arguments": arguments,
        "safe_path": sys.argv[1:2] == ["-P"],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "descriptors": descriptors,
        "umask": umask(),
        "cores": list(os.sched_getaffinity(0)),
        "limits": {number: resource.getrlimit(number) for number in limits.values()},
        "blocked": blocked,
        "ignored": [int(each) for each in FORWARDED if signal.getsignal(each) == signal.SIG_IGN],
        "launcher": os.path.abspath(sys.argv[0]),
    }
    content = json.dumps(request).encode()
    socket.send_fds(connection, [len(content).to_bytes(4, "big")], descriptors)
    connection.sendall(content)


def is_open(descriptor):  # type: ignore[no-untyped-def]
    """Return True if the descriptor still exists. The one that listed the descriptors is closed."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def umask():  # type: ignore[no-untyped-def]
    value = os.umask(0)
    os.umask(value)
    return value


if __name__ == "__main__":
    with open(f"{sys.argv[0]}.json") as file:
        SETTINGS = json.load(file)
    main()
