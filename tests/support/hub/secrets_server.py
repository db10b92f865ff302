"""A simulated AWS Secrets Manager over HTTP (GetSecretValue), which boto3 reaches through AWS_ENDPOINT_URL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def keeping(secrets: Mapping[str, str]) -> Iterator[str]:
    """Serve the secrets on a free port, and yield the server's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["X-Amz-Target"] == "secretsmanager.GetSecretValue"
            secret = secrets.get(request["SecretId"])
            missing = {"__type": "ResourceNotFoundException", "Message": "Secrets Manager can't find the secret."}
            content = missing if secret is None else {"Name": request["SecretId"], "SecretString": secret}
            data = json.dumps(content).encode()
            self.send_response(200 if secret is not None else 400)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
