"""Scenes and servers for tests of the playground."""

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np

from bayespoint import BayesPointClassifier, RejectingClassifier
from bayespoint.cli.playground.scene import Scene
from bayespoint.cli.playground.server import PlaygroundServer

SCRIPT = "<script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def rows(n=60, seed=0):
    """Rows of three features in three classes; one name of each is a script."""
    rng = np.random.default_rng(seed)
    which = np.arange(n) % 3
    X = rng.normal(size=(n, 3)) + 1.8 * np.eye(3)[which]
    return X, np.array(["plain", "other", SCRIPT])[which]


def scene(coverage=0.8, **settings):
    """Scene of a model by EP whose settings are given."""
    X, y = rows()
    clf = BayesPointClassifier(
        kernel="rbf", gamma=0.3, bias=1.0, softness=0.1, inference="ep", random_state=0, n_jobs=1
    )
    if coverage is not None:
        clf = RejectingClassifier(clf, coverage=coverage)
    numbers = np.arange(1, len(X) + 1)
    given = {"labels": y, **settings}
    names = ["size", SCRIPT, "weight"]
    return Scene("rows.csv", clf.fit(X, y), X, names, numbers, len(X), **given)


@contextmanager
def served(shown):
    """Server of a scene, while the test runs."""
    with PlaygroundServer(shown) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Client:
    """Requests as a browser, or somebody else, would send them."""

    def __init__(self, server):
        self.server = server
        self.right = {
            "Host": server.hosts[0], "Origin": f"http://{server.hosts[0]}", "X-Key": server.key,
        }  # fmt: skip

    def send(self, method, path, body=None, **changed):
        """Send right headers but for those changed (None: left out); status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=20)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        headers = {**self.right, **{name.replace("_", "-"): v for name, v in changed.items()}}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if content is not None:
            headers.setdefault("Content-Length", len(content))
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    connection.putheader(name, one)
        connection.endheaders(content)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def ask(self, path, **numbers):
        status, _, content = self.send("POST", path, numbers)
        assert status == 200, content
        return json.loads(content)
