"""`python -m models.server --model FOLDER [--port 0] [...]`: serve one model until SIGTERM.

By default the system chooses the port. Once the server listens, it writes its address to the file `--address`, so no
other process can take the port in the meantime. Until the model is loaded, the server answers that it is loading. If
loading fails, the server exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from models.server.access import access, in_url
from models.server.app import App
from models.server.connection import HEAD_BYTES, Connection, is_answering
from models.server.garbage import collect_between_requests, postpone_full_collections
from models.server.token_file import read_token
from training.contract.errors import InputError, TrainfareError
from training.state.shared_folders import lock_for_use
from training.state.umask import set_umask

IDLE_SECONDS = 75
"""Longest time that a connection may be idle between two requests."""
GRACE_SECONDS = 10
"""Time for running requests to finish when the server must stop."""
SWITCH_SECONDS = 0.0005
"""Longest time that a thread keeps Python's lock while the event loop waits for it. With Python's 5 ms, a batch in the
loop, which releases the lock a hundred times, takes half a second beside a thread that reads a long body."""
LOOK_SECONDS = 1.0
"""Interval for checking whether the lifetime has ended."""


def main(arguments: Sequence[str]) -> int:
    """Serve until stopped. Return 1 if the model cannot be loaded, and 2 for wrong options."""
    options = _parser().parse_args(arguments)
    try:
        set_umask()
        allowed = access(options.host, read_token(options.token_file) if options.token_file else None)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    listener = _listener(options.host, options.port)
    address = f"http://{in_url(options.host)}:{listener.getsockname()[1]}"
    if options.address:
        _write(options.address, json.dumps({"pid": os.getpid(), "address": address}))
    if options.home:
        lock_for_use(options.home.resolve(), [options.model.resolve()])
    sys.setswitchinterval(SWITCH_SECONDS)
    app = App(allowed)
    server = uvicorn.Server(_config(app))
    failed: list[BaseException] = []
    threading.Thread(target=_load, args=(app, server, options, failed, address), daemon=True).start()
    if options.lifetime:
        threading.Thread(target=_end_when_over, args=(server, options.lifetime), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, listener))
    return 1 if failed else 0


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    connections = server.server_state.connections
    collecting = asyncio.create_task(collect_between_requests(lambda: is_answering(connections)))
    await server.serve(sockets=[listener])
    collecting.cancel()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


def _load(
    app: App, server: uvicorn.Server, options: argparse.Namespace, failed: list[BaseException], address: str
) -> None:
    """Load the model and start serving it; stop the server if loading fails."""
    try:
        from models.inference.predictor import load_predictor
        from models.loading.evaluation import evaluation_from_json

        model = load_predictor(
            options.model,
            task=options.task,
            precision=options.precision,
            evaluation=evaluation_from_json(options.evaluation),
            max_length=options.max_length,
        )
        model.answer(_warm_up(model.task))
        postpone_full_collections()
        # Printed before the first answer, so that a server that is killed right after it has a log.
        print(f"Serving {options.model} in {model.loaded.precision} at {address}", flush=True)
        app.serve(model)
    except BaseException as error:
        failed.append(error)
        if not isinstance(error, TrainfareError):
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            print("error:", error, file=sys.stderr, flush=True)
        server.should_exit = True


def _warm_up(task: str) -> object:
    """Return an input for a warm-up, because a model's first run is slow."""
    return {"question": "Is it warm?", "context": "It is warm."} if task == "question-answering" else "It is warm."


def _end_when_over(server: uvicorn.Server, path: Path) -> None:
    """Stop the server when its lifetime has ended. A later `deploy` may extend the lifetime."""
    while True:
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            kept = json.loads(path.read_bytes())
            if kept["when_over"] == "delete" and kept["expires"] is not None and kept["expires"] <= time.time():
                print("The lifetime of this endpoint has ended.", flush=True)
                server.should_exit = True
                return
        time.sleep(LOOK_SECONDS)


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        print(f"error: cannot listen on port {port} of {host}: {error.strerror}.", file=sys.stderr)
        raise SystemExit(1) from None
    listener.setblocking(False)
    return listener


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.replace(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m models.server", description="Serve one model over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="a Transformers folder")
    parser.add_argument("--task", help="task of the model; default: read from config.json")
    parser.add_argument("--precision", help="auto (as evaluated), fastest, fp32, bf16 or fp16")
    parser.add_argument("--evaluation", help="settings of the evaluation, as JSON")
    parser.add_argument("--max-length", type=int, help="tokens to which inputs are truncated")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--token-file", type=Path, help="file with a token that requests need; required beyond loopback"
    )
    parser.add_argument("--port", type=int, default=0, help="default: chosen by the system")
    parser.add_argument("--address", type=Path, help="file for the server's address and process id, as JSON")
    parser.add_argument(
        "--home", type=Path, help="state folder; its `trainfare jobs prune` keeps the model while it is served"
    )
    parser.add_argument("--lifetime", type=Path, help="JSON file with expires (seconds since 1970) and when_over")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
