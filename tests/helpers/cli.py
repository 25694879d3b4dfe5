"""What tests of the command line share: running commands, files for them, pages they write."""

import csv
import json
import os
import subprocess
import sys
from html.parser import HTMLParser

from typer.testing import CliRunner

from bayespoint.cli.app import app
from helpers.paths import SOURCE

FAST = ["--inference", "perceptron", "--n-draws", "8", "--n-jobs", "1"]


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def well(*arguments, input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def fails(code, *arguments, words=(), input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == code, (arguments, result.output)
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    flat = " ".join(result.output.split())
    for word in [words] if isinstance(words, str) else words:
        assert word in flat, (arguments, flat)
    return flat


def run_process(code, *arguments, stdout=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=300,
    )  # fmt: skip


def write(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([names, *rows])
    return path


def part(source, path, chosen):
    """Write some rows of a CSV file; ``chosen`` takes all and returns them, changed or not."""
    with open(source, newline="", encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    return write(path, names, chosen(rows))


def predicted(data, model, output, *options):
    """Names, rows and words of ``predict``."""
    result = well("predict", data, "--model", model, "--output", output, *options)
    with open(output, newline="", encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    return names, rows, result.output


def numbers(data, model, *options):
    """What ``evaluate`` measures, of files whose target is ``kind``."""
    command = ["evaluate", data, "--model", model, "--target", "kind", "--json"]
    return json.loads(well(*command, *options).stdout)


def reported(data, model, path, *options, target="kind"):
    """Page of ``evaluate``, its HTML and what the command said."""
    result = well("evaluate", data, "--model", model, "--target", target, "--report", path,
                  *options)  # fmt: skip
    html = path.read_text(encoding="utf-8")
    return Page(html), html, result.output


class Page(HTMLParser):
    """Tags, attributes and text of a page; well-formed or an assertion fails."""

    VOID = ("meta", "line", "rect", "path", "circle", "br")

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def assert_offline(page, html):
    """The page asks for nothing from outside and runs nothing."""
    assert not {"script", "link", "img", "iframe", "object", "a", "form", "base"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href", "srcset", "xlink:href", "action"}
    assert not any(name.startswith("on") for name in names)
    for outside in ("http://", "https://", "src=", "url(", "@import"):
        assert outside not in html
