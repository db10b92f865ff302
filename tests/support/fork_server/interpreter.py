"""Interpreter that starts within milliseconds what takes the real one seconds of imports.

`forking_interpreter()` returns an executable for the place of `sys.executable`. Its processes are real ones, with
standard streams, signals, limits and exit codes of their own; only their packages are imported already, by a server
that forks them. See `server.py`, and `launcher.py` for what is left to the real interpreter.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

INTERPRETER = sys.executable
"""The real one."""

FOLDER = Path(__file__).parent
JOB = FOLDER.parents[2] / "training" / "job"

ROOM_BYTES = 100_000
"""Longest environment that /proc shows of a program; one variable can hold 128 KiB."""

INTERPRETER_VARIABLES = ("PYTHON", "HOME", "XDG_")
READ_LATER = (
    # Taken on by the child itself.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING"),
    # Read whenever they are needed.
    *("TORCHINDUCTOR_CACHE_DIR", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
)


STARTED: list[subprocess.Popen[bytes]] = []
"""The servers that run; they end with this process."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Imports of one server, and the programs that it is for."""

    name: str
    imported: tuple[str, ...]
    forgotten: tuple[str, ...]
    """Packages that are imported anew by each program, because they read the environment; what they import is kept."""
    called: tuple[tuple[str, ...], ...] = ()
    """Module, function and arguments of calls whose results the packages cache: all programs share them."""
    folders: tuple[str, ...] = ()
    """Folders to import from."""
    variables: tuple[str, ...]
    """Beginnings of variables that the packages may read as they are imported.

    A program with other values than the server's is left to the real interpreter.
    """
    modules: tuple[str, ...] = ()
    """Programs started by `-m`."""
    beside: str = ""
    """A file that lies beside the scripts that it runs."""


JOB_SERVER = Server(
    name="job",
    imported=(
        "compilation.lean_imports",
        *("torch", "torch.distributed.run", "accelerate", "safetensors.torch", "pyarrow.parquet", "psutil"),
        *("transformers", "transformers.trainer", "transformers.trainer_pt_utils"),
        *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
        *("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2"),
    ),
    called=(("transformers.conversion_mapping", "get_checkpoint_conversion_mapping", "bert"),),
    forgotten=("compilation",),
    folders=(str(JOB),),
    variables=(
        *("ACCELERATE_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SAFETENSORS_", "MKL_", "OPENBLAS_"),
        *("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "TRITON_", "CUDA_", "XLA_", "PJRT_"),
    ),
    beside="compilation/lean_imports.py",
)
SAMPLE = "tests.support.fork_server.sample"
"""A program to test the server with."""

COMMAND_SERVER = Server(
    name="command",
    imported=(
        *("mlflow", "mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "mlflow.cli", "alembic.command"),
        *("mlflow.server.handlers", "mlflow.server.fastapi_app", "uvicorn.main", "uvicorn.protocols.http.auto"),
        *("pandas", "pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "pydantic", "yaml", "jinja2", "psutil"),
        *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "scipy.stats"),
        *("rich.console", "rich.table", "rich.progress", "rich.traceback", "optuna", "boto3", "psycopg"),
        *("transformers.models.auto.tokenization_auto", "transformers.models.auto.configuration_auto"),
        *("transformers.convert_slow_tokenizer", "tokenizers", "huggingface_hub", "datasets"),
    ),
    forgotten=("mlflow.server",),
    variables=("HF_", "TRANSFORMERS_", "MPL", "MLFLOW_DISABLE_", "MLFLOW_LOGGING_", "MLFLOW_CONFIGURE_"),
    modules=("experiments", "training.services.local.supervisor", "mlflow", "uvicorn", SAMPLE),
)
SERVERS = (JOB_SERVER, COMMAND_SERVER)


@cache
def forking_interpreter() -> str:
    """Return the path of the interpreter of this test process; its servers start when they are first needed."""
    folder = Path(tempfile.mkdtemp(prefix="forking_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Whoever holds the other end keeps the servers alive.
    alive, _held = os.pipe()
    listeners = {server.name: _listener(folder / server.name) for server in SERVERS}
    launcher = folder / "python"
    launcher.write_text(f"#!{INTERPRETER} -IS\n{(FOLDER / 'launcher.py').read_text()}")
    launcher.with_name("python.json").write_text(json.dumps(_settings(folder)))
    launcher.chmod(0o755)
    threading.Thread(target=_start_on_demand, args=(folder, listeners, alive), daemon=True).start()
    return str(launcher)


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1000)
    return listener


def _settings(folder: Path) -> dict[str, Any]:
    return {
        "interpreter": INTERPRETER,
        "read_later": READ_LATER,
        "servers": {
            server.name: {
                "socket": str(folder / server.name),
                "beside": server.beside,
                "modules": server.modules,
                "variables": (*INTERPRETER_VARIABLES, *server.variables),
                "environment": _environment(),
            }
            for server in SERVERS
        },
    }


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "MLFLOW_TRACKING"))}
    return own | {"HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}


def _start_on_demand(folder: Path, listeners: dict[str, socket.socket], alive: int) -> None:
    waiting = {listeners[server.name]: server for server in SERVERS}
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [])
        for listener in ready:
            _start(waiting.pop(listener), folder, listener, alive)


def _start(server: Server, folder: Path, listener: socket.socket, alive: int) -> None:
    # The interpreter's own threads would be lost by a fork.
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (folder / f"{server.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(INTERPRETER, "-u", "-P", str(FOLDER / "server.py")),
                *(str(listener.fileno()), str(alive)),
                json.dumps(asdict(server)),
            ],
            cwd="/",
            env=_environment() | single | {"FORK_SERVER_ROOM": "-" * ROOM_BYTES},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[listener.fileno(), alive],
            start_new_session=True,
        )
    STARTED.append(process)
    listener.close()
