"""A page and its answers on loopback, for one browser on this machine.

Nothing of a request becomes a path, HTML or code: the page is one file, questions are three fixed
names with a few whole numbers, and answers are JSON. A request must carry the key that is in the
address, name this server in ``Host`` and, where it asks a question, in ``Origin``.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, cast

from bayespoint.cli.playground.scene import QuestionError, Scene
from bayespoint.io.tables import printable

LOOPBACK = "127.0.0.1"
# Bytes of a question: two whole numbers and their names.
MOST_BODY = 200
# Seconds that a client may keep silent.
PATIENCE = 10.0

Question = tuple[tuple[str, ...], Callable[..., dict[str, Any]]]


def page_text() -> str:
    """The page, as it also opens from disk."""
    return files("bayespoint.cli.playground").joinpath("playground.html").read_text("utf-8")


def page_for_server() -> tuple[bytes, str]:
    """The page that asks Python, and a content security policy that lets nothing else run."""
    text = page_text().replace(
        '<meta name="bayespoint-python" content="no">',
        '<meta name="bayespoint-python" content="yes">',
    )
    policy = (
        f"default-src 'none'; script-src {_hash(text, 'script')}; "
        f"style-src {_hash(text, 'style')}; img-src data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _hash(text: str, tag: str) -> str:
    found = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


class PlaygroundServer(ThreadingHTTPServer):
    """Serves the page and answers about a scene, on loopback only.

    Parameters
    ----------
    scene : Scene
    port : int, default=0
        0: one that is free.
    """

    def __init__(self, scene: Scene, port: int = 0) -> None:
        self.page, self.policy = page_for_server()
        self.key = secrets.token_urlsafe(24)
        self.questions: Mapping[str, Question] = {
            "/about": ((), scene.about), "/view": (("x", "y"), scene.view),
            "/row": (("row",), scene.row),
        }  # fmt: skip
        self.one_at_a_time = threading.Lock()
        super().__init__((LOOPBACK, port), _Handler)
        self.hosts = tuple(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    @property
    def url(self) -> str:
        """Address to open, with the key."""
        return f"http://{self.hosts[0]}/?key={self.key}"

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may take long and is not used."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print one line, but none where a browser has gone away in the middle of an answer."""
        del request, client_address
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            self.report(error)

    def report(self, error: BaseException | None) -> None:
        """Tell the terminal of an error that should not be."""
        words = printable(f"{type(error).__name__}: {error}")
        print(f"The playground failed to answer: {words}", file=sys.stderr)


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "bayespoint", ""
    timeout = PATIENCE

    @property
    def _playground(self) -> PlaygroundServer:
        return cast(PlaygroundServer, self.server)

    def do_GET(self) -> None:
        """The page, at its one address."""
        self._answer(self._page)

    def do_POST(self) -> None:
        """Answer a question."""
        self._answer(self._asked)

    def _answer(self, find: Callable[[], tuple[str, bytes]]) -> None:
        try:
            self._check_sender()
            kind, content = find()
        except _RefusedError as refused:
            self.send_error(refused.status)
            return
        except (ConnectionError, TimeoutError):  # nobody is there to be told
            raise
        except Exception as error:
            self._playground.report(error)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self._send(HTTPStatus.OK, kind, content)

    def _check_sender(self) -> None:
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0] not in self._playground.hosts:
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
        needed = self.command == "POST"  # browsers send it with every question of a page
        if origins != [f"http://{hosts[0]}"] and (origins or needed):
            raise _RefusedError(HTTPStatus.FORBIDDEN)

    def _check_key(self, given: str) -> None:
        if not hmac.compare_digest(given.encode(), self._playground.key.encode()):
            raise _RefusedError(HTTPStatus.FORBIDDEN)

    def _page(self) -> tuple[str, bytes]:
        target, _, key = self.path.partition("?key=")
        if target != "/":
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        self._check_key(key)
        return "text/html; charset=utf-8", self._playground.page

    def _asked(self) -> tuple[str, bytes]:
        if self.path not in self._playground.questions:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        self._check_key(self.headers.get("X-Key", ""))
        names, answer = self._playground.questions[self.path]
        numbers = self._numbers(names)
        try:
            with self._playground.one_at_a_time:
                found = answer(**numbers)
        except QuestionError:
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from None
        return "application/json", json.dumps(found, allow_nan=False).encode()

    def _numbers(self, names: tuple[str, ...]) -> dict[str, int]:
        """Whole numbers of the body, exactly those that are named."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > len(str(MOST_BODY)) or int(length) > MOST_BODY:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            given = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from None
        right = isinstance(given, dict) and set(given) == set(names)
        if not right or any(type(value) is not int for value in given.values()):
            raise _RefusedError(HTTPStatus.BAD_REQUEST)
        return cast(dict[str, int], given)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-store",
            "Content-Security-Policy": self._playground.policy, "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin", "Connection": "close",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in words of our own: nothing of the request comes back."""
        del message, explain
        self.close_connection = True
        status = HTTPStatus(code)
        self.command = getattr(self, "command", None) or "GET"
        self._send(
            status, "text/plain; charset=utf-8", f"{status.value} {status.phrase}\n".encode()
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal for people; text of requests does not reach it."""
