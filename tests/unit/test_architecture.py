"""The layers hold: flows -> tasks -> stylerl, and dvc.yaml tells the truth."""

import ast
import importlib.util
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

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
    "stylerl/cli": {"tasks", "dvc", "mlflow"},  # run and serve need flows
    "tasks": {"flows", *TOOLS},
    "flows": {"tasks", "dvc", "mlflow"},
}
# Modules of the command line that start a Prefect server or a flow.
PREFECT_COMMANDS = {"stylerl/cli/main.py", "stylerl/cli/serve.py"}
# What a stage imports without its outputs depending on it: parameters are
# declared by value, the rest reports, names or stores.
WITHOUT_EFFECT = {
    "stylerl/errors.py",
    "stylerl/storage.py",
    "stylerl/config/files.py",
    "stylerl/config/sections.py",
    "stylerl/config/settings.py",
    "stylerl/pipeline/graph.py",
    "stylerl/pipeline/machine.py",
    "stylerl/pipeline/process.py",
    "stylerl/pipeline/tracking.py",
}
STAGES = graph.load_stages(ROOT)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every dotted name that a file imports, at any depth of its code."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
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


def companions(path: Path) -> Iterator[Path]:
    """Files beside a module that its code names, such as a template."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
            if "." in name and "/" not in name and len(name) < 80:
                file = path.parent / name
                if file.is_file():
                    yield file


def code_of(stage: str) -> set[str]:
    """The files of ours that a stage uses, directly or not."""
    found: set[str] = set()
    waiting = {ROOT / "tasks" / f"{stage}.py"}
    while waiting:
        path = waiting.pop()
        found.add(name_of(path))
        if path.suffix == ".py":
            used = set(map(file_of, imports(path))) - {None}
            used.update(companions(path))
            waiting |= {file for file in used if name_of(file) not in found}
    return {
        name
        for name in found - WITHOUT_EFFECT
        if not name.endswith("__init__.py")  # docstrings and re-exports
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_downwards(path: Path) -> None:
    name = name_of(path)
    prefix = max((p for p in FORBIDDEN if name.startswith(f"{p}/")), key=len)
    forbidden = FORBIDDEN[prefix]
    if prefix == "stylerl/cli" and name not in PREFECT_COMMANDS:
        forbidden = forbidden | {"flows", "prefect"}
    roots = {imported.partition(".")[0] for imported in imports(path)}
    assert roots & forbidden == set()


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
        if path.name != "__init__.py":
            assert "@flow(" in path.read_text(), name_of(path)


def test_no_two_modules_have_one_name() -> None:
    names = [
        path.stem for path in PACKAGES["stylerl"] if path.stem != "__init__"
    ]
    assert [name for name, n in Counter(names).items() if n > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_dvc_yaml_names_the_code_of_each_stage(stage: graph.Stage) -> None:
    declared = {
        dep for dep in stage.deps if dep.startswith(("stylerl/", "tasks/"))
    }
    assert declared == code_of(stage.name)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_has_one_name_everywhere(stage: graph.Stage) -> None:
    assert stage.command == f"python -m tasks.{stage.name}"
    assert importlib.util.find_spec(f"tasks.{stage.name}")
    assert stage.name in stage.params
    assert f"metrics/{stage.name}.json" in stage.outs


def test_the_order_of_the_stages() -> None:
    names = [stage.name for stage in STAGES]
    assert sorted(names) == sorted(
        ["filter", "label", "pretrain", "sft", "reward", "ppo", "evaluate"]
    )
    for before, after in [
        ("filter", "label"),
        ("filter", "pretrain"),
        ("label", "sft"),
        ("pretrain", "sft"),
        ("sft", "reward"),
        ("reward", "ppo"),
        ("ppo", "evaluate"),
    ]:
        assert names.index(before) < names.index(after)


def test_only_pretrain_is_frozen() -> None:
    assert [s.name for s in STAGES if s.frozen] == ["pretrain"]


def test_every_stage_can_use_the_run_cache() -> None:
    # DVC switches it off for a stage that has an uncached `outs` entry
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for name, stage in declared.items():
        for out in stage["outs"]:
            for path, options in out.items():
                assert options.get("cache", True), f"{name}: {path}"
