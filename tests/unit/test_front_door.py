"""What a newcomer meets first: its size, its links, what it cites."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "mlflow/README.md",
)
ROOM = "stylerl/*/__init__.py"
LINK = re.compile(r"\]\(([^)\s]+)\)")


README = (ROOT / "README.md").read_text().splitlines()


def metadata() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_readme_is_one_page() -> None:
    assert len(README) <= 100


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_both_commands_are_met_at_once(command: str) -> None:
    assert any(line.startswith(command) for line in README[:25])


def test_the_results_are_generated_and_few() -> None:
    start, end = (
        README.index(f"<!-- {mark} -->") for mark in ("headline", "/headline")
    )
    rows = [line for line in README[start:end] if line.startswith("|")]
    assert 1 <= len(rows) - 2 <= 9  # without the head and its rule


def test_the_tree_is_that_of_the_repository() -> None:
    tree = "\n".join(README).split("```\n")[-2].splitlines()
    named = {name for line in tree for name in re.findall(r"[\w./]+/", line)}
    rooms = {
        line.split("/")[0].strip() for line in tree if line.startswith("  ")
    }
    assert rooms == {path.parent.name for path in ROOT.glob(ROOM)}
    tops = {name.rstrip("/") for name in named} - rooms - {"presets"}
    assert [name for name in tops if not (ROOT / name).is_dir()] == []


def test_the_tree_names_every_stage() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    line = next(line for line in README if line.startswith("tasks/"))
    assert line.split(": ")[1].split() == list(stages)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text())
    paths = {link.partition("#")[0] for link in links if ":" not in link}
    folder = (ROOT / page).parent
    assert [path for path in paths if not (folder / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_anchor_is_a_heading(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text())
    folder = (ROOT / page).parent
    for path, anchor in (link.split("#") for link in links if ".md#" in link):
        headings = re.findall(r"^#+ (.+)$", (folder / path).read_text(), re.M)
        slugs = [re.sub(r"[^\w -]", "", name) for name in headings]
        assert anchor in [slug.lower().replace(" ", "-") for slug in slugs]


def test_the_citation_names_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = metadata()
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Source"]


def test_the_changelog_knows_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{metadata()['version']}]" in changelog


def test_hooks_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    for repo in hooks["repos"]:
        assert repo["repo"] == "local"
        assert {hook["language"] for hook in repo["hooks"]} == {"system"}


def test_the_workflow_pins_its_actions_to_commits() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", action) for action in used)
