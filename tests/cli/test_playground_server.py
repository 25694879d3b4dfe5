"""The server of the playground answers one page, and nobody else."""

import json
import socket

import pytest
from helpers.playgrounds import SCRIPT, Client, scene, served

from bayespoint.cli.playground.server import MOST_BODY, page_for_server, page_text


@pytest.fixture(scope="module")
def shown():
    return scene()


@pytest.fixture(scope="module")
def client(shown):
    with served(shown) as server:
        yield Client(server)


def test_the_page_comes_with_a_policy_that_lets_nothing_else_run(client):
    status, headers, content = client.send("GET", f"/?key={client.server.key}")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert content == page_for_server()[0]
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_only_one_line_of_the_page_is_for_the_server():
    disk, sent = page_text().splitlines(), page_for_server()[0].decode().splitlines()
    changed = [(a, b) for a, b in zip(disk, sent, strict=True) if a != b]
    assert [a for a, _ in changed] == ['<meta name="bayespoint-python" content="no">']


def test_questions_are_answered(client, shown):
    about = client.ask("/about")
    assert about["shown"] == about["rows"] == len(shown.X)
    assert about["axes"][2] == "size"
    view = client.ask("/view", x=0, y=1)
    assert len(view["cell_label"]) == view["grid"] ** 2
    row = client.ask("/row", row=3)
    assert sum(p for _, p in row["probabilities"]) == pytest.approx(1)
    assert row["nearest"][0][0] == "training row 4"  # itself


def test_it_listens_on_loopback_only(client):
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.socket.family == socket.AF_INET


BODY = {"row": 1}
REFUSED = {
    "path traversal": (404, "GET", "/../../../../etc/passwd", None, {}),
    "encoded traversal": (404, "GET", "/%2e%2e/%2e%2e/etc/passwd?key={key}", None, {}),
    "absolute address": (404, "GET", "http://127.0.0.1/?key={key}", None, {}),
    "foreign host": (421, "POST", "/row", BODY, {"Host": "evil.example"}),
    "host on another port": (421, "GET", "/?key={key}", None, {"Host": "127.0.0.1:1"}),
    "two hosts": (421, "POST", "/row", BODY, {"Host": ["evil.example", "127.0.0.1"]}),
    "no host": (421, "GET", "/?key={key}", None, {"Host": None}),
    "foreign origin": (403, "POST", "/row", BODY, {"Origin": "http://evil.example"}),
    "no origin": (403, "POST", "/row", BODY, {"Origin": None}),
    "origin null": (403, "GET", "/?key={key}", None, {"Origin": "null"}),
    "no key": (403, "GET", "/", None, {}),
    "wrong key": (403, "POST", "/row", BODY, {"X-Key": "guess"}),
    "huge body": (413, "POST", "/row", None, {"Content-Length": str(10**12)}),
    "a body that is too long": (413, "POST", "/row", b"x" * (MOST_BODY + 1), {}),
    "negative length": (411, "POST", "/row", None, {"Content-Length": "-1"}),
    "chunks": (411, "POST", "/row", b"0\r\n\r\n", {"Transfer-Encoding": "chunked"}),
    "no JSON": (400, "POST", "/row", b"\xff{", {}),
    "deep JSON": (400, "POST", "/row", b"[" * MOST_BODY, {}),
    "a name that is not asked for": (400, "POST", "/row", {"row": 1, "__class__": 1}, {}),
    "text for a number": (400, "POST", "/row", {"row": "1; import os"}, {}),
    "true for a number": (400, "POST", "/row", {"row": True}, {}),
    "a row that is not there": (400, "POST", "/row", {"row": -1}, {}),
    "a number without end": (400, "POST", "/row", b'{"row": ' + b"9" * 150 + b"}", {}),
    "axes that are not there": (400, "POST", "/view", {"x": 0, "y": 10**9}, {}),
    "the same axis twice": (400, "POST", "/view", {"x": 2, "y": 2}, {}),
    "a component with a column": (400, "POST", "/view", {"x": 0, "y": 2}, {}),
    "another question": (404, "POST", "/__class__", {}, {}),
    "wrong method": (501, "DELETE", "/row", None, {}),
    "method of the page": (404, "GET", "/row", None, {}),
    "a question to the page": (404, "POST", "/?key={key}", {}, {}),
    "markup in the path": (404, "GET", "/<script>alert(1)</script>", None, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_requests_are_refused(client, name):
    status, method, path, body, headers = REFUSED[name]
    changed = {key.replace("-", "_"): value for key, value in headers.items()}
    found, sent, content = client.send(method, path.format(key=client.server.key), body, **changed)
    assert found == status
    assert sent["Content-Type"] == "text/plain; charset=utf-8"
    assert sent["Content-Security-Policy"].startswith("default-src 'none'")
    assert len(content) < 60  # a number and its usual words: nothing of the request comes back
    assert client.ask("/row", row=0)["words"]  # and it goes on


@pytest.mark.parametrize("fault", [RuntimeError("lost\x1b[2J"), ValueError("theirs"), float("nan")])
def test_faults_are_told_to_both_ends(client, capsys, monkeypatch, fault):
    """A fault of the program is none of the request, also where JSON cannot say what was found."""

    def answer():
        if isinstance(fault, Exception):
            raise fault
        return {"number": fault}

    questions = {**client.server.questions, "/about": ((), answer)}
    monkeypatch.setattr(client.server, "questions", questions)
    status, headers, content = client.send("POST", "/about", {})
    assert (status, content) == (500, b"500 Internal Server Error\n")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    said = capsys.readouterr().err
    assert said.startswith("The playground failed to answer: ")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_a_client_that_goes_away_is_no_fault(client, capsys):
    for error in (ConnectionResetError(), BrokenPipeError(), TimeoutError(), KeyError("x")):
        try:
            raise error
        except Exception:
            client.server.handle_error(None, None)
    assert capsys.readouterr().err == "The playground failed to answer: KeyError: 'x'\n"


def test_right_requests_are_answered_so_that_refusals_mean_something(client):
    assert client.send("POST", "/row", BODY)[0] == 200
    assert client.send("GET", f"/?key={client.server.key}", Origin=None)[0] == 200
    host = client.server.hosts[1]  # localhost
    assert client.send("POST", "/row", BODY, Host=host, Origin=f"http://{host}")[0] == 200


def test_garbage_instead_of_a_request_is_harmless(client):
    for text in (b"\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"\r\n"):
        with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=20) as end:
            end.sendall(text)
            end.shutdown(socket.SHUT_WR)
            answer = end.recv(10_000)
        assert b"Traceback" not in answer
    assert client.ask("/row", row=0)["words"]


def test_text_of_data_travels_as_json_only(client):
    for path, numbers in (("/about", {}), ("/row", {"row": 2})):
        status, headers, content = client.send("POST", path, numbers)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert SCRIPT[:30] in json.dumps(json.loads(content))
    assert SCRIPT.encode() not in client.send("GET", f"/?key={client.server.key}")[2]
