"""The repository keeps its promises: commands, version, and no trace of anyone's machine."""

import re
import shutil
import subprocess
import tomllib

import pytest
from helpers.paths import ROOT

import bayespoint

# Folders of one machine; written in two parts, or this file would be found as well.
MACHINE_PATHS = ["/" + "work/", "/" + "tmp/dev", "/" + "root/", "/" + "home/", "/" + "Users/"]


def read(name):
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not here: not a checkout")
    return path.read_text(encoding="utf-8")


def sh_blocks(text):
    blocks = re.findall(r"^```sh[ \t]*\n(.*?)^```[ \t]*$", text, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


def tracked_files():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git or no git metadata")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip(f"git ls-files: {listed.stderr.strip()}")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def machine_paths_in(text):
    return [path for path in MACHINE_PATHS if path in text]


def test_readme_starts_with_two_commands_of_one_line():
    commands = sh_blocks(read("README.md"))[:2]
    assert [len(lines) for lines in commands] == [1, 1]
    assert all(lines[0].strip() for lines in commands)


def broken_links(name, text):
    """Links of a page to files that are not there, or to headings that they do not have."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        page = (ROOT / name).parent / path if path else ROOT / name
        if not page.exists():
            broken.append(target)
        elif anchor:
            headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor not in {
                re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
            }:
                broken.append(target)
    return broken


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_front_pages_lead_somewhere(name):
    assert broken_links(name, read(name)) == []


def test_broken_links_are_found():
    text = "[a](docs/none.md) [b](README.md#none) [c](README.md) [d](https://example.org)"
    assert broken_links("README.md", text) == ["docs/none.md", "README.md#none"]


def test_sh_blocks_sees_every_line():
    text = "a\n```sh\none\n```\n```python\nx\n```\n```sh\none\ntwo\n```\n"
    assert sh_blocks(text) == [["one"], ["one", "two"]]


def test_citation_has_the_version_of_the_package():
    version = re.search(r"^version: *[\"']?([^\"'\s]+)", read("CITATION.cff"), re.MULTILINE)
    assert version.group(1) == bayespoint.__version__


def dates_of_release(changelog, citation):
    """Date of the newest version in the changelog, and in the citation; None before a release."""
    heading = re.search(r"^## \[.+?\] - (\S+)", changelog, re.MULTILINE).group(1)
    cited = re.search(r"^date-released: *[\"']?([^\"'\s]+)", citation, re.MULTILINE)
    return None if heading == "unreleased" else heading, cited and cited.group(1)


def test_citation_has_the_date_of_the_changelog():
    changelog, citation = dates_of_release(read("CHANGELOG.md"), read("CITATION.cff"))
    assert changelog == citation


def test_another_date_is_noticed():
    dates = dates_of_release("## [1.0] - 2026-01-02\n", "date-released: 2026-01-03\n")
    assert dates == ("2026-01-02", "2026-01-03")
    assert dates_of_release("## [1.0] - unreleased\n", "") == (None, None)


def test_conda_recipe_has_version_and_dependencies_of_the_package():
    recipe, project = read("packaging/conda/meta.yaml"), tomllib.loads(read("pyproject.toml"))
    assert f'version = "{bayespoint.__version__}"' in recipe
    needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["cli"]
    for name, version in (requirement.split(">=") for requirement in needed):
        name = {"matplotlib": "matplotlib-base"}.get(name, name)
        assert f"- {name} >={version}\n" in recipe, name


def test_changelog_has_the_version_of_the_package():
    assert f"## [{bayespoint.__version__}]" in read("CHANGELOG.md")


def test_no_tracked_file_names_a_folder_of_one_machine():
    found = {}
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text file
        if machine_paths_in(text):
            found[str(path.relative_to(ROOT))] = machine_paths_in(text)
    assert not found


def test_machine_paths_are_found():
    assert machine_paths_in("see /" + "root/notes.txt") == ["/" + "root/"]
    assert machine_paths_in("a relative path/to/file") == []
