"""Python interpreter that starts programs in milliseconds, because a server has already imported their packages.

`forking_interpreter()` returns the path of an executable that replaces `sys.executable`. Its processes are real
processes with standard streams, signals, limits and exit codes, forked by a server that has imported the heavy packages
(see `server.py`). The real interpreter still runs programs that no server can run (see `launcher.py`).
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
"""The real interpreter."""

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]

ENVIRONMENT_BYTES = 100_000
"""Space for the environment that /proc shows for a program. One variable can contain 128 KiB."""

INTERPRETER_VARIABLES = ("PYTHON", "HOME", "XDG_")
NOT_READ_AT_IMPORT = (
    # The child applies these itself.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING"),
    # Packages read these whenever they need them.
    *("TORCHINDUCTOR_CACHE_DIR", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    # These have no effect here. PostgreSQL's package sets the first. The second concerns the Hub; tests are offline.
    *("XDG_RUNTIME_DIR", "HF_HUB_DISABLE_TELEMETRY"),
)
"""Variables that may differ from the server's, although their names start like those that packages read."""


SHARED_VARIABLE = "FORKING_INTERPRETER"
"""Names the interpreter that parallel test processes share."""

STARTED: list[subprocess.Popen[bytes]] = []
"""The running servers. They end with this process."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Packages that one server imports, and the programs that it can run."""

    name: str
    preloaded: tuple[str, ...]
    """Packages that the server imports."""
    reloaded: tuple[str, ...]
    """Preloaded packages that each program imports again, because they read the environment when imported."""
    cached_calls: tuple[tuple[str, ...], ...] = ()
    """Module, function and arguments of calls whose results the packages cache. The server makes these calls, so that
    all programs share the results."""
    folders: tuple[str, ...] = ()
    """Folders to import from."""
    variables: tuple[str, ...]
    """Prefixes of variables that the packages may read when they are imported.

    If a program's values differ from the server's, the real interpreter runs it.
    """
    modules: tuple[str, ...] = ()
    """Programs that the server can run with `-m`."""
    marker_file: str = ""
    """Path relative to a script's folder. The server can run scripts in folders with this file."""


JOB_SERVER = Server(
    name="job",
    preloaded=(
        "training.job.compilation.lean_imports",
        *(
            "torch",
            "torch._inductor.compile_fx",
            "torch.distributed.run",
            "accelerate",
            "safetensors.torch",
            "pyarrow.parquet",
            "psutil",
        ),
        *("transformers", "transformers.trainer", "transformers.trainer_pt_utils"),
        *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
        *("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2"),
    ),
    cached_calls=(("transformers.conversion_mapping", "get_checkpoint_conversion_mapping", "bert"),),
    reloaded=("training",),
    folders=(str(ROOT),),
    variables=(
        *("ACCELERATE_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SAFETENSORS_", "MKL_", "OPENBLAS_"),
        *("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "TRITON_", "CUDA_", "XLA_", "PJRT_"),
    ),
    marker_file="training/job/compilation/lean_imports.py",
)
SWEEP_WORKER = "tests.support.sweeps.worker_process"

COMMAND_SERVER = Server(
    name="command",
    preloaded=(
        *("mlflow", "mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "mlflow.cli", "alembic.command"),
        *("mlflow.server.handlers", "mlflow.server.fastapi_app", "uvicorn.main", "uvicorn.protocols.http.auto"),
        *("pandas", "pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "pydantic", "yaml", "jinja2", "psutil"),
        *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "scipy.stats"),
        *("rich.console", "rich.table", "rich.progress", "rich.traceback", "optuna", "boto3", "psycopg"),
        *("transformers.models.auto.tokenization_auto", "transformers.models.auto.configuration_auto"),
        *("transformers.convert_slow_tokenizer", "tokenizers", "huggingface_hub", "datasets"),
        *("torch", "transformers.models.auto.modeling_auto", "transformers.models.bert.modeling_bert"),
        "sagemaker.core.config.config",
    ),
    reloaded=("mlflow.server",),
    variables=("HF_", "TRANSFORMERS_", "MPL", "MLFLOW_DISABLE_", "MLFLOW_LOGGING_", "MLFLOW_CONFIGURE_"),
    modules=("experiments", "training.services.local.supervisor", "mlflow", "uvicorn", SWEEP_WORKER),
)
SERVERS = (JOB_SERVER, COMMAND_SERVER)


@cache
def forking_interpreter() -> str:
    """Return the path of the interpreter of these tests. Each of its servers starts when it is first needed."""
    if SHARED_VARIABLE in os.environ:
        return os.environ[SHARED_VARIABLE]
    folder = Path(tempfile.mkdtemp(prefix="forking_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # The servers end when this process closes the other end of the pipe.
    alive, _write_end = os.pipe()
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
        "not_read_at_import": NOT_READ_AT_IMPORT,
        "servers": {
            server.name: {
                "socket": str(folder / server.name),
                "marker_file": server.marker_file,
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
    # A fork would lose the threads of these libraries.
    single_threaded = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (folder / f"{server.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(INTERPRETER, "-u", "-P", str(FOLDER / "server.py")),
                *(str(listener.fileno()), str(alive)),
                json.dumps(asdict(server)),
            ],
            cwd="/",
            env=_environment() | single_threaded | {"FORK_SERVER_ROOM": "-" * ENVIRONMENT_BYTES},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[listener.fileno(), alive],
            start_new_session=True,
        )
    STARTED.append(process)
    listener.close()
