"""SIGTERM to process 1 of a container reaches the training under each launcher of AWS's images, and nothing else."""

from __future__ import annotations

import ast
import json
import os
import shlex
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.aws.machine import IMAGE
from tests.support.fork_server.interpreter import INTERPRETER
from training.services.sagemaker.machines import ENTRY_POINT, PROGRAM, arguments, entry_point

OURS = (*ENTRY_POINT, *arguments())
AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"

# Trains until SIGTERM, then needs a moment for its checkpoint. Its data worker would die of the signal.
JOB = """
    import os, signal, subprocess, sys, time
    # It can outlive this process, so it must not hold the test's pipe open.
    worker = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    def save(*_):
        time.sleep(0.5)
        os.write(1, b"saved with worker\\n" if worker.poll() is None else b"saved without worker\\n")
        worker.kill()
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    os.write(1, " ".join(["training", *sys.argv[1:]]).encode() + b"\\n")
    time.sleep(60)
"""
# Kills its processes at once, as mpirun does a few seconds after SIGTERM.
MPIRUN = """
    import signal, subprocess, sys
    ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]]) for _ in range(2)]
    def end(*_):
        for rank in ranks:
            rank.kill()
        sys.exit(1)
    signal.signal(signal.SIGTERM, end)
    sys.exit(max(rank.wait() for rank in ranks))
"""
# torch_xla's launcher: its processes are forks of it, with its command line.
XLA_SPAWN = """
    import os, runpy, sys
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            runpy.run_path(sys.argv[1], run_name="__main__")
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children))
"""
SHELL_SCRIPT = '#!/bin/bash\ntrap "echo trapped" TERM\necho training\npython job.py "$1" &\nwait $!\nwait\nexit 7\n'

COMMANDS = {
    "a script": (["job.py", "a b"], 1),
    "mpirun": (["-c", "import os; os.execlp('mpirun', 'mpirun', 'job.py')"], 2),
    "torchrun": (["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "job.py"], 2),
    "xla_spawn": (["-m", "torch_xla.distributed.xla_spawn", "job.py"], 2),
    "a pipeline": (["-c", "import os; os.execlp('sh', 'sh', '-c', 'python job.py | tee log.txt; exit 0')"], 1),
}
"""Arguments of the interpreter, and the number of processes that train."""


def write(file: Path, text: str, first_line: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(first_line + textwrap.dedent(text).lstrip())
    file.chmod(0o755)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """A container with stand-ins for the launchers that are not installed here."""
    write(tmp_path / "code" / "job.py", JOB)
    write(tmp_path / "bin" / "mpirun", MPIRUN, f"#!{INTERPRETER}\n")
    write(tmp_path / "packages" / "torch_xla" / "distributed" / "xla_spawn.py", XLA_SPAWN)
    return Container(tmp_path)


class Container:
    """A container whose process 1 is the given entry point."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, entry: tuple[str, ...], command: list[str]) -> subprocess.Popen[str]:
        variables = {
            "PATH": f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self._folder / "packages"),
            "PYTHONUNBUFFERED": "1",
            "TRAINFARE_PYTHON": "unused",
            "EMULATED_ENTRY": json.dumps(entry),
            "EMULATED_PYTHON": INTERPRETER,
            "EMULATED_INTERPRETER": INTERPRETER,
        }
        return subprocess.Popen(
            [str(IMAGE / "interpreter"), *map(shlex.quote, command)],  # the toolkit's shell gets the words as they are
            cwd=self._folder / "code",
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def lines_until(process: subprocess.Popen[str], text: str, count: int) -> None:
    """Read the output until this many lines start with the text."""
    assert process.stdout
    while count:
        line = process.stdout.readline()
        assert line, f"the container ended before it printed {text}"
        count -= line.startswith(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_every_process_of_the_training_saves(container: Container, name: str) -> None:
    command, processes = COMMANDS[name]
    running = container.start(OURS, command)
    lines_until(running, "training", processes)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    assert output.count("saved with worker") == processes, output
    assert running.returncode == 0, output


def test_a_shell_script_that_traps_the_signal_gets_it_too(container: Container, tmp_path: Path) -> None:
    write(tmp_path / "code" / "job.sh", SHELL_SCRIPT)
    running = container.start(OURS, ["-c", "import os; os.execl('./job.sh', './job.sh', 'x')"])
    lines_until(running, "training x", 1)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    assert "trapped" in output
    assert "saved with worker" in output
    assert running.returncode == 7


def test_a_training_that_starts_after_the_stop_gets_the_signal(container: Container, tmp_path: Path) -> None:
    # The shell survives: it is neither signalled nor is its failed command the last.
    script = "echo preparing; sleep 30; python job.py; exit 0"
    running = container.start(OURS, ["-c", f"import os; os.execlp('sh', 'sh', '-c', '{script}')"])
    lines_until(running, "preparing", 1)
    time.sleep(0.2)
    started = time.monotonic()
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=25)
    assert time.monotonic() - started < 20


def test_the_request_contains_the_program_within_the_limits_of_the_api() -> None:
    # botocore 1.44.5, sagemaker/2017-07-24: TrainingContainerEntrypoint and TrainingContainerArguments.
    for words in (ENTRY_POINT, arguments()):
        assert 1 <= len(words) <= 100
        assert all(len(word) <= 256 and "\n" not in word for word in words)
    assert ast.dump(ast.parse("\n".join(arguments()))) == ast.dump(without_docstrings(PROGRAM.read_text()))
    ast.parse("\n".join(arguments()), feature_version=(3, 6))  # that of the oldest image


def without_docstrings(source: str) -> ast.Module:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node):
            del node.body[0]
    return tree


@pytest.mark.parametrize(
    ("image", "is_replaced"),
    [
        (f"{AWS}/huggingface-pytorch-training:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04", True),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1.0", False),
        ("local", False),
    ],
)
def test_only_the_entry_point_of_awss_images_is_replaced(image: str, is_replaced: bool) -> None:
    assert entry_point(image) == ((ENTRY_POINT, arguments()) if is_replaced else ((), ()))
