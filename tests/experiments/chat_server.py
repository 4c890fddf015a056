"""A chat endpoint on this machine for tests: it answers by a function and fails by a script."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """One response; `lost` resets the connection instead, `slow` says nothing until the server closes."""

    status: int = 200
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = JSON
    lost: bool = False
    slow: bool = False


def chat(
    text: str | None, first_token: dict[str, float] | None = None, **changes: Any
) -> dict[str, Any]:
    """A chat completion as an endpoint sends it."""
    tokens = [{"token": t, "logprob": p, "bytes": None} for t, p in (first_token or {}).items()]
    logprobs = {"content": [tokens[0] | {"top_logprobs": tokens}]} if tokens else None
    return {
        "object": "chat.completion",
        "model": "toy-2026",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
                "logprobs": logprobs,
            }
            | changes
        ],
        "usage": {"completion_tokens": 3},
    }


def ok(text: str | None, first_token: dict[str, float] | None = None, **changes: Any) -> Reply:
    return Reply(body=json.dumps(chat(text, first_token, **changes)))


def refused(status: int, message: str, **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps({"error": {"message": message}}), names)


class ChatServer:
    """Answers with `script` while it lasts, then with `answer(body)`.

    `requests` holds the bodies and `headers` the headers of all requests, in the order of their coming.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Reply]) -> None:
        self.answer = answer
        self.script: deque[Reply] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last message of every request."""
        return [body["messages"][-1]["content"] for body in self.requests]

    def reply(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            if self.script:
                return self.script.popleft()
        return self.answer(body)

    @contextmanager
    def serving(self) -> Iterator[ChatServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = server.reply(
                {"path": self.path, **body},
                {name.lower(): value for name, value in self.headers.items()},
            )
            if reply.lost:
                hard = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hard)
                self.connection.close()
                self.close_connection = True
                return
            if reply.slow:
                server.closing.wait(10)
                self.close_connection = True
                return
            data = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            self.send_header("content-type", reply.kind)
            self.send_header("content-length", str(len(data)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def handle(self) -> None:
            with suppress(OSError):  # a client that gave up
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
