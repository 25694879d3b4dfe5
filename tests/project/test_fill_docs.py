"""What the docs quote from benchmarks can be measured again by one command."""

import shlex
from types import SimpleNamespace

import pytest
from helpers.benchmarks import load_benchmark
from helpers.paths import ROOT

PAGE = """# A page

<!-- measured: python -c "print('new')" -->

```text
old
```

<!-- measured: python -c "print('| 2 |')" (gpu) @ 0123abc 2026-01-02 -->
| 1 |
| 1 |

The end.
"""


@pytest.fixture
def fill_docs():
    return load_benchmark("fill_docs")


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_comments_are_read(fill_docs, page):
    block, table = fill_docs.quoted([page])
    assert (block.how, block.commit, block.day) == (None, None, None)
    assert (table.how, table.commit, table.day) == ("gpu", "0123abc", "2026-01-02")


def test_blocks_that_need_a_gpu_or_a_hand_do_not_run_with_the_others(fill_docs, page):
    page.write_text(PAGE + "\n<!-- measured: python a.py (by hand) -->\n| 3 |\n")
    places = fill_docs.quoted([page])

    def run(gpu):
        options = SimpleNamespace(texts=[], run=True, gpu=gpu, stale=False)
        return [place.how for place in places if fill_docs.wanted(place, options)]

    assert run(gpu=False) == [None]
    assert run(gpu=True) == ["gpu"]


def test_blocks_and_tables_are_filled_in(fill_docs, page):
    for one in fill_docs.quoted([page]):
        fill_docs.fill(one, fill_docs.output_of(one.command))
    text = page.read_text()
    assert "```text\nnew\n```" in text
    assert "-->\n| 2 |\n\nThe end.\n" in text
    assert "old" not in text
    assert "| 1 |" not in text
    assert "0123abc" not in text
    assert [one.how for one in fill_docs.quoted([page])] == [None, "gpu"]


def test_a_command_that_fails_prints_nothing(fill_docs):
    assert fill_docs.output_of("python -c 'print(1)' && python -c 'raise SystemExit(1)'") is None


def test_a_comment_without_a_block_is_an_error(fill_docs):
    with pytest.raises(ValueError, match="line 1: no block and no table"):
        fill_docs.extent(["words"], 0)


def test_every_comment_of_the_docs_names_a_benchmark_and_a_block(fill_docs):
    pages = sorted((ROOT / "docs").rglob("*.md"))
    places = fill_docs.quoted(pages)
    marks = sum(page.read_text(encoding="utf-8").count("<!-- measured") for page in pages)
    assert len(places) == marks
    assert len({place.command for place in places}) == len(places)  # each is quoted once
    for place in places:
        fill_docs.extent(place.page.read_text(encoding="utf-8").splitlines(), place.line + 1)
        for part in place.command.split(" && "):
            program, script, *_ = shlex.split(part)
            known = (ROOT / script).is_file() if program == "python" else program == "bayespoint"
            assert known, part
