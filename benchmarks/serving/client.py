"""`python -m benchmarks.serving.client ADDRESS TEXTS`: send one text after the other to an endpoint.

Each line on standard input selects a share of the texts, such as `2/8`: every eighth text, starting at the third. For
each line, the client prints JSON with the seconds of every request, and the times of the first and last request. It
uses `http.client`, with one connection for each line.
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
    """Connect, warm up, and send a share of the texts for each line read."""
    bodies = [json.dumps({"inputs": text}).encode() for text in json.loads(Path(texts_file).read_text())]
    for body in bodies[:20]:
        ask(connect(address), body)
    print("ready", flush=True)
    for line in sys.stdin:
        number, count = map(int, line.split("/"))
        connection = connect(address)  # The server closes connections that are idle for a long time.
        seconds = []
        began = time.monotonic()
        for body in bodies[number::count]:
            started = time.perf_counter()
            ask(connection, body)
            seconds.append(time.perf_counter() - started)
        print(json.dumps({"from": began, "to": time.monotonic(), "seconds": seconds}), flush=True)


def connect(address: str) -> http.client.HTTPConnection:
    """Return a new connection."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: http.client.HTTPConnection, body: bytes) -> None:
    """Send one request. Exit if the response is not 200."""
    connection.request("POST", "/invocations", body, HEADERS)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise SystemExit(answer.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
