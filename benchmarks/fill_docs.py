"""Measure again what the docs quote, and fill it in.

    python benchmarks/fill_docs.py                        list what is quoted, and how old it is
    python benchmarks/fill_docs.py --run [TEXT ...]       run commands, or those that contain TEXT,
                                                          in the order of these TEXTs
    python benchmarks/fill_docs.py --run --stale --minutes 45

A block or table of the docs is filled in where a comment stands above it:

    <!-- measured: python benchmarks/noise.py --part gibbs @ 1a2b3c4 2026-11-18 -->

After @ come the commit of the code that was measured (or, where that is not known, the commit that
brought the figures) and the date. ``(gpu)`` before @ marks commands that need a GPU: they run with
``--gpu`` only. ``(by hand)`` marks blocks that are joined from several runs or cut
short: they are listed, but never filled. Several commands for one block are joined by ``&&``;
``> a.json`` and the like are not understood. What a command prints to stdout is quoted as it is but
for blanks at ends of lines: in a ``text`` block, or as it stands where it is a Markdown table. A
command that fails changes nothing and is named at the end; the exit status is then 1. Sources must
be committed, so that the commit says what was measured.

Data sets come from the folder named in BAYESPOINT_DATA.
"""

import argparse
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(
    r"^<!-- measured: (?P<command>.+?)(?: \((?P<how>gpu|by hand)\))?"
    r"(?: @ (?P<commit>[0-9a-f]{7,40}) (?P<day>\d{4}-\d\d-\d\d))? -->$"
)
SOURCES = ("src", "benchmarks")


class Quoted(NamedTuple):
    """A place in the docs that quotes a command."""

    page: Path
    line: int  # of the comment, from 0 on
    command: str
    how: str | None  # "gpu", "by hand"
    commit: str | None
    day: str | None


def main():
    options = parse()
    chosen = [one for one in quoted(options.pages) if wanted(one, options)]
    chosen.sort(key=lambda one: [text in one.command for text in options.texts], reverse=True)
    if not options.run:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # | head ends the list
        for one in chosen:
            how = f" ({one.how})" if one.how else ""
            print(f"{one.page.name}:{one.line + 1:<5} {age(one):<28} {one.command}{how}")
        return 0
    if dirty := git("status", "--porcelain", "--", *SOURCES):
        sys.exit(f"commit these first, so that the commit says what was measured:\n{dirty}")
    failed, start = [], time.monotonic()
    for one in chosen:
        if (time.monotonic() - start) / 60 > options.minutes:
            print(f"not begun after {options.minutes:g} minutes: {one.command}")
            continue
        print(f"{one.page.name}: {one.command}", flush=True)
        begun = time.monotonic()
        printed = output_of(one.command)
        print(f"  [{time.monotonic() - begun:.0f} s]", flush=True)
        if printed is None:
            failed.append(one.command)
        else:
            fill(one, printed)
    for command in failed:
        print(f"FAILED: {command}")
    return int(bool(failed))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", nargs="*", metavar="TEXT", help="commands that contain one of these"
    )
    parser.add_argument("--stale", action="store_true", help="only where sources changed since")
    parser.add_argument(
        "--gpu", action="store_true", help="commands that need a GPU, and no others"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin none after these"
    )
    parser.add_argument(
        "--pages", nargs="+", type=Path, default=sorted((ROOT / "docs").rglob("*.md"))
    )
    options = parser.parse_args()
    options.texts, options.run = options.run or [], options.run is not None
    return options


def quoted(pages):
    """Places of some pages that quote commands, in order."""
    found = []
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
            if match := MARK.match(line):
                command, how, commit, day = match.group("command", "how", "commit", "day")
                found.append(Quoted(page, number, command, how, commit, day))
    return found


def wanted(one, options):
    if options.texts and not any(text in one.command for text in options.texts):
        return False
    if options.run and one.how != ("gpu" if options.gpu else None):
        return False
    return not options.stale or changes_since(one) != 0


def changes_since(one):
    """Commits that changed sources since, None where that is not known."""
    if one.commit is None:
        return None
    since = git("log", "--oneline", f"{one.commit}..HEAD", "--", "src")
    return None if since is None else len(since.splitlines())


def age(one):
    if one.commit is None:
        return "of unknown age"
    n_changes = changes_since(one)
    known = "commit not here" if n_changes is None else f"{n_changes} commits since"
    return f"{one.day}, {known}"


def output_of(command):
    """What commands print, None if one of them fails."""
    printed = []
    for part in command.split(" && "):
        words = shlex.split(part)
        if words[0] == "python":
            words[0] = sys.executable
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return None
        printed.append(done.stdout.strip("\n"))
    return "\n".join(printed)


def fill(one, printed):
    """Put what was printed in the place of the block or table below a comment."""
    lines = one.page.read_text(encoding="utf-8").splitlines()
    at = next(
        number
        for number, line in enumerate(lines)
        if (match := MARK.match(line)) and match["command"] == one.command
    )
    begin, end = extent(lines, at + 1)
    new = [line.rstrip() for line in printed.splitlines()]
    if lines[begin].startswith("```"):
        begin, end = begin + 1, end - 1
    how = f" ({one.how})" if one.how else ""
    commit = git("rev-parse", "--short", "HEAD")
    lines[at] = f"<!-- measured: {one.command}{how} @ {commit} {date.today()} -->"
    lines[begin:end] = new
    one.page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def extent(lines, begin):
    """First line of the block or table that follows, and the line after its last."""
    while not lines[begin].strip():
        begin += 1
    if lines[begin].startswith("```"):
        return begin, lines.index("```", begin + 1) + 1
    if not lines[begin].startswith("|"):
        raise ValueError(f"line {begin + 1}: no block and no table follows the comment above")
    end = begin
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return begin, end


def git(*words):
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    return None if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
