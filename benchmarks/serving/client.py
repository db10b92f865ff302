"""`python -m benchmarks.serving.client ADDRESS TEXTS`: asks an endpoint for one text after the other.

Each line read names a share, such as `2/8`: every eighth text from the third. Answers it with the seconds of every
request and the time from the first to the last, as JSON. `http.client` on one connection that is kept for a pass.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HEADERS = {"Content-Type": "application/json"}


def main(address: str, texts_file: str) -> None:
    """Connect, warm up, and ask whenever told to."""
    bodies = [json.dumps({"inputs": text}).encode() for text in json.loads(Path(texts_file).read_text())]
    for body in bodies[:20]:
        ask(connected(address), body)
    print("ready", flush=True)
    for line in sys.stdin:
        place, count = map(int, line.split("/"))
        connection = connected(address)  # the server closes what is idle for long
        taken = []
        began = time.monotonic()
        for body in bodies[place::count]:
            started = time.perf_counter()
            ask(connection, body)
            taken.append(time.perf_counter() - started)
        print(json.dumps({"from": began, "to": time.monotonic(), "seconds": taken}), flush=True)


def connected(address: str) -> http.client.HTTPConnection:
    """Return a new connection."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: http.client.HTTPConnection, body: bytes) -> None:
    """Ask once; an answer other than 200 ends the benchmark."""
    connection.request("POST", "/invocations", body, HEADERS)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise SystemExit(answer.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
