"""What a newcomer meets first: its size, its links, what it cites."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def metadata() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text())
    paths = {link.partition("#")[0] for link in links if ":" not in link}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


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
