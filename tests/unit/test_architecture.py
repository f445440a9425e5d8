"""The layers hold: flows -> tasks -> stylerl; test_dvc_yaml.py: the graph."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import chdir
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from stylerl.pipeline import graph

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = {
    package: sorted((ROOT / package).rglob("*.py"))
    for package in ("stylerl", "tasks", "flows")
}
MODULES = [path for paths in PACKAGES.values() for path in paths]
# Top-level packages that a folder of ours may not import; the longest prefix
# of a module's path counts.
TOOLS = {"prefect", "dvc", "mlflow"}
FORBIDDEN = {
    "stylerl": {"tasks", "flows", *TOOLS},
    "stylerl/pipeline": {"tasks", "flows"},
    "tasks": {"flows", *TOOLS},
    "flows": {"tasks", "dvc", "mlflow"},
}
with chdir(ROOT):
    STAGES = graph.load_stages()


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every dotted name that a file imports, at any depth of its code."""
    return frozenset(names_in(ast.walk(ast.parse(path.read_text()))))


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every dotted name that some nodes of a file import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            assert node.module
            yield node.module
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def file_of(name: str) -> Path | None:
    """The file that a dotted name stands for, if it is one of ours."""
    stem = ROOT / name.replace(".", "/")
    for file in (stem.with_suffix(".py"), stem / "__init__.py"):
        if file.exists():
            return file
    return None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_downwards(path: Path) -> None:
    name = name_of(path)
    prefix = max((p for p in FORBIDDEN if name.startswith(f"{p}/")), key=len)
    roots = {imported.partition(".")[0] for imported in imports(path)}
    assert roots & FORBIDDEN[prefix] == set()


def test_mlflow_has_one_front() -> None:
    users = [
        name_of(path)
        for path in MODULES
        if any(name.partition(".")[0] == "mlflow" for name in imports(path))
    ]
    assert users == ["stylerl/pipeline/tracking.py"]


def room_of(name: str) -> str | None:
    """The room of stylerl that a dotted name lies in."""
    parts = name.split(".")
    return parts[1] if parts[0] == "stylerl" and len(parts) > 2 else None


def test_rooms_have_no_cycle() -> None:
    arrows: dict[str, set[str]] = {}
    for path in PACKAGES["stylerl"]:
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3:
            continue
        used = {room_of(name) for name in imports(path)} - {None, parts[1]}
        arrows.setdefault(parts[1], set()).update(filter(None, used))
    tuple(TopologicalSorter(arrows).static_order())  # raises on a cycle
    assert "pipeline" not in {
        r for u in (arrows[a] for a in arrows if a != "cli") for r in u
    }


def test_few_modules_lie_loose() -> None:
    loose = {path.name for path in (ROOT / "stylerl").glob("*.py")}
    assert loose - {"__init__.py"} == {"draws.py", "errors.py", "storage.py"}


def test_flows_and_tasks_hold_nothing_else() -> None:
    stages = {f"{stage.name}.py" for stage in STAGES} | {"__init__.py"}
    assert {path.name for path in PACKAGES["tasks"]} == stages
    for path in PACKAGES["flows"]:
        if path.name not in ("__init__.py", "commands.py"):
            assert "@flow(" in path.read_text(), name_of(path)


def test_no_two_modules_have_one_name() -> None:
    names = [
        path.stem for path in PACKAGES["stylerl"] if path.stem != "__init__"
    ]
    assert [name for name, n in Counter(names).items() if n > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_values_are_called_by_nouns(path: Path) -> None:
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    assert names & {"each", "found", "kept", "own", "said"} == set()
