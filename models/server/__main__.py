"""`python -m models.server --model FOLDER [...]`: serve one model until SIGTERM.

The system chooses the port. Once the server listens, it writes its address to the file `--address`, so no
other process can take the port in the meantime. Until the model is loaded, the server answers that it is loading. If
loading fails, the server exits with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from models.server.access import allowed_hosts, in_url, read_token
from models.server.app import App
from state.permissions import set_umask
from training.contract.errors import InputError, TrainfareError
from training.job.tasks import TASKS

IDLE_SECONDS = 75
MAX_CONNECTIONS = 512
"""Most connections at the same time; further requests get the status 503."""
GRACE_SECONDS = 10


def main(arguments: Sequence[str]) -> int:
    """Serve until stopped. Return 1 if the model cannot be loaded, and 2 for wrong options."""
    parser = argparse.ArgumentParser(prog="python -m models.server", description="Serve one model over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="a Transformers folder")
    parser.add_argument("--task", help="task of the model; default: read from config.json")
    parser.add_argument("--precision", help="auto (as evaluated), fp32, bf16 or fp16")
    parser.add_argument("--evaluation", default="{}", help="settings of the evaluation, as JSON")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--token-file", type=Path, help="file with a token that requests need; see docs/models.md")
    parser.add_argument("--address", type=Path, help="file for the server's address and process id, as JSON")
    options = parser.parse_args(arguments)
    try:
        set_umask()
        token = read_token(options.token_file) if options.token_file else None
        app = App(allowed_hosts(options.host, token), token)
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listener = socket.create_server((options.host, 0), family=family)
        # Otherwise the body of an answer may wait 40 ms for the acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        print(f"error: cannot listen on --host {options.host}: {error.strerror}.", file=sys.stderr)
        return 1
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    address = f"http://{in_url(options.host)}:{listener.getsockname()[1]}"
    if options.address:
        temporary = options.address.with_name(options.address.name + ".new")
        temporary.write_text(json.dumps({"pid": os.getpid(), "address": address}))
        temporary.replace(options.address)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="error",
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_load, args=(app, server, options, address), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    return 0 if app.is_loaded else 1


def _load(app: App, server: uvicorn.Server, options: argparse.Namespace, address: str) -> None:
    """Load the model and start serving it; stop the server if loading fails."""
    try:
        from models.inference.evaluation import Evaluation
        from models.inference.predictor import load_predictor

        evaluation = Evaluation(**json.loads(options.evaluation))
        model = load_predictor(options.model, task=options.task, precision=options.precision, evaluation=evaluation)
        # A model's first run is slow.
        task = TASKS[model.task]
        model.answer(task.example_input(), {"max_new_tokens": 1} if task.generates else None)
        # Printed before the first answer, so that a server that is killed right after it has a log.
        print(f"Serving {options.model} in {model.loaded.precision} at {address}", flush=True)
        app.serve(model)
    except TrainfareError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
    finally:
        server.should_exit |= not app.is_loaded


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
