"""Stand-in for the Python interpreter, which has a fork server run the program where one can.

`interpreter.py` copies it, with a first line that names the interpreter. It hands everything that a program
inherits over to a child of the server, passes signals on, and ends as the child does. What no server can run as the
interpreter would, the interpreter runs. Standard library only, and little of it: this is what each start costs.
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
"""Under these an import may fail, which only the interpreter shows."""


def main() -> None:
    name, words = choose(sys.argv[1:])
    if name is None:
        os.execv(SETTINGS["interpreter"], [SETTINGS["interpreter"], *sys.argv[1:]])
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(SETTINGS["servers"][name]["socket"])
            hand_over(connection, words, list(blocked))
            answers = connection.makefile("rb")
            first = answers.readline() or fail(name)
        except ConnectionError:
            fail(name)
        child = json.loads(first)["pid"]
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.kill(child, number))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        outcome = json.loads(answers.readline() or '{"exit": 255}')
    if "exit" in outcome:
        os._exit(outcome["exit"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if outcome["signal"] not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(outcome["signal"], signal.SIG_DFL)
    os.kill(os.getpid(), outcome["signal"])


def fail(name):  # type: ignore[no-untyped-def]
    """Say why the server is gone, and end."""
    with open(f"{SETTINGS['servers'][name]['socket']}.log") as log:
        sys.exit(f"The fork server '{name}' has ended: {log.read()[-2000:]}")


def choose(words):  # type: ignore[no-untyped-def]
    """Return the server that can run these words, and the words without the interpreter's options; None if none can."""
    words = list(words)
    while words and words[0] in ("-u", "--"):
        words.pop(0)
    if not words or (words[0].startswith("-") and words[0] not in ("-m", "-c")):
        return None, words
    if any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in MEMORY_LIMITS):
        return None, words
    for name, server in SETTINGS["servers"].items():
        if suits(server, words) and all(os.environ.get(each) == value for each, value in read_at_import(server)):
            return name, words
    return None, words


def suits(server, words):  # type: ignore[no-untyped-def]
    if server["beside"]:
        # The job keeps packages out of its process: only a script that lies with the job's files may lack them.
        scripts = [each for each in words if each.endswith(".py")]
        return any(os.path.exists(os.path.join(os.path.dirname(each), server["beside"])) for each in scripts)
    return words[0] == "-m" and words[1] in server["modules"]


def read_at_import(server):  # type: ignore[no-untyped-def]
    """Yield the variables that packages read when they are imported, with the values that the server had."""
    names = {*server["environment"], *os.environ}
    for name in names:
        if name.startswith(tuple(server["variables"])) and name not in SETTINGS["read_later"]:
            yield name, server["environment"].get(name)


def hand_over(connection, words, blocked):  # type: ignore[no-untyped-def]
    descriptors = [int(each) for each in os.listdir("/proc/self/fd")]
    descriptors = [each for each in descriptors if each != connection.fileno() and is_open(each)]
    limits = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    request = {
        "words": words,
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
    """Return whether the descriptor still exists, which that of the listing of descriptors does not."""
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
