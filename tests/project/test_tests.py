"""Tests stay easy to change: they stand alone, look at behaviour, and are short."""

import ast
import re
from collections import Counter
from functools import cache

from helpers.paths import ROOT, TESTS

FILES = sorted(TESTS.rglob("test_*.py"))
MOST_LINES = 400


def names_of(module):
    """Names that a file imports, and attributes that it reads from other objects than self."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and not own(node.value):
            yield node, node.attr


def own(value):
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


@cache
def private(name):
    """Whether a name is private; rooms that tests may open, and public names, can look so."""
    public = ("_replace", "_asdict", "_fields", "_make", "_support", "_loops", "_exit", "_thread")
    parts = [part for part in name.split(".") if part not in public]
    return any(re.match(r"_[a-z]", part, re.IGNORECASE) for part in parts)


def test_every_folder_is_run():
    """CI runs all but for folders that it runs beside the others; those for a GPU on demand."""
    commands = re.findall(r"python -m pytest (.*)", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    (rest,) = [command for command in commands if "--left-out" in command]
    assert rest.endswith(" tests src")
    for folder in re.findall(r"--ignore=(\S+)", rest):
        assert any(command.endswith(f" {folder}") for command in commands)


def test_file_names_are_unique():
    """They are modules of one name space."""
    assert [name for name, n in Counter(path.name for path in FILES).items() if n > 1] == []


def test_every_file_keeps_the_rules():
    found = []
    for path in FILES:
        text, where = path.read_text(encoding="utf-8"), path.relative_to(TESTS)
        for node, name in names_of(ast.parse(text)):
            imported = isinstance(node, ast.Import | ast.ImportFrom)
            if imported and any(part.startswith("test_") for part in name.split(".")):
                found.append(f"{where}:{node.lineno} imports {name}")
            elif private(name):
                found.append(f"{where}:{node.lineno} reads {name}")
        if len(text.splitlines()) > MOST_LINES:
            found.append(f"{where} has {len(text.splitlines())} lines")
    assert found == []


def test_private_names_are_seen():
    module = ast.parse("from a._b import c\nx._y\nself._z\nx.__class__\nx._replace()")
    assert [name for _, name in names_of(module) if private(name)] == ["a._b.c", "_y"]
