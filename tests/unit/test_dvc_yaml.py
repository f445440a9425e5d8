"""dvc.yaml tells the truth: of each stage's code it lacks and adds nothing.

A stage's code is what its module in tasks/ imports, directly or not, and the
files that the code names, such as a template.  What is left out follows from
the rules of `has_no_effect`; no file is excused by its name.
"""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from test_architecture import ROOT, STAGES, file_of, name_of, names_in

from stylerl.pipeline.graph import Stage

MOST = 0.75  # of a folder's modules a stage uses, where it names the folder
LONGEST = 10  # lines of code in the dependencies of a stage

each_stage = pytest.mark.parametrize(
    "stage", STAGES, ids=lambda stage: stage.name
)


@cache
def code_of(stage: str) -> frozenset[str]:
    """The files of ours that a stage's outputs depend on."""
    found: set[str] = set()
    waiting = {ROOT / "tasks" / f"{stage}.py"}
    while waiting:
        path = waiting.pop()
        found.add(name_of(path))
        if path.suffix == ".py":
            nodes = [*executed(ast.parse(path.read_text()))]
            used = set(map(file_of, names_in(nodes))) - {None}
            used.update(companions(path, nodes))
            waiting |= {file for file in used if name_of(file) not in found}
    return frozenset(name for name in found if not has_no_effect(name))


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, but for the blocks that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from executed(node)


def companions(path: Path, nodes: list[ast.AST]) -> Iterator[Path]:
    """Files beside a module that its code names, such as a template."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
            if "." in name and "/" not in name and len(name) < 80:
                file = path.parent / name
                if file.is_file():
                    yield file


def has_no_effect(name: str) -> bool:
    """Whether a file that a stage imports enters none of its outputs.

    Parameters are declared by value, under `params`; the pipeline says when
    and where a stage runs.  A test below holds each of these two.
    """
    return name.startswith(
        ("stylerl/config/", "stylerl/pipeline/")
    ) or gives_nothing(ROOT / name)


def gives_nothing(path: Path) -> bool:
    """Whether a module holds nothing but what gives no value.

    A docstring, imports, `__all__`; exceptions, and functions that return
    None and write no file, so that all they can do is raise.
    """
    if path.suffix != ".py" or "stylerl.storage import" in path.read_text():
        return False
    return all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and is_text(node.value))
        or (isinstance(node, ast.Assign) and is_named_all(node))
        or (isinstance(node, ast.FunctionDef) and returns_none(node))
        or (isinstance(node, ast.ClassDef) and is_exception(node))
        for node in ast.parse(path.read_text()).body
    )


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_named_all(node: ast.Assign) -> bool:
    return [ast.unparse(target) for target in node.targets] == ["__all__"]


def returns_none(node: ast.FunctionDef) -> bool:
    return node.returns is not None and ast.unparse(node.returns) == "None"


def is_exception(node: ast.ClassDef) -> bool:
    """A class with a docstring and nothing else, on top of an exception."""
    bases = [ast.unparse(base) for base in node.bases]
    return all(
        base.endswith(("Error", "Exception")) for base in bases
    ) and all(isinstance(line, ast.Expr) for line in node.body)


def declared_code(stage: Stage) -> list[str]:
    """The files and folders of code among a stage's dependencies."""
    return [
        dep for dep in stage.deps if dep.startswith(("stylerl/", "tasks/"))
    ]


def covers(dep: str, name: str) -> bool:
    """Whether a dependency is the file, or a folder around it."""
    return Path(name).is_relative_to(dep)


def upstream(stage: Stage) -> set[Stage]:
    """The stages whose rerun may rerun this one."""
    before = {
        other
        for other in STAGES
        if any(covers(out, dep) for dep in stage.deps for out in other.outs)
    }
    return before.union(*map(upstream, before))


def measures(stage: Stage) -> bool:
    """Whether it leaves metrics; one that does not shows those of others."""
    return any(out.startswith("metrics/") for out in stage.outs)


def task_of(stage: Stage) -> ast.Module:
    return ast.parse((ROOT / "tasks" / f"{stage.name}.py").read_text())


@each_stage
def test_a_stage_lacks_none_of_its_code(stage: Stage) -> None:
    declared = declared_code(stage)
    assert [
        name
        for name in sorted(code_of(stage.name))
        if not any(covers(dep, name) for dep in declared)
    ] == []


@each_stage
def test_a_stage_overstates_none_of_its_code(stage: Stage) -> None:
    """A file is used; a folder is used, and MOST of its modules are.

    Used by the stage, or by one that it reads from: an edit of that module
    reruns the one before in any case.
    """
    own = code_of(stage.name)
    known = own.union(*(code_of(other.name) for other in upstream(stage)))
    for dep in declared_code(stage):
        assert any(covers(dep, name) for name in own), dep
        if (ROOT / dep).is_dir():
            modules = {
                name_of(path)
                for path in (ROOT / dep).rglob("*.py")
                if not gives_nothing(path)
            }
            share = len(modules & known) / len(modules)
            assert share >= MOST, f"{dep}: {sorted(modules - known)}"


@each_stage
def test_a_person_can_read_what_a_stage_names(stage: Stage) -> None:
    declared = declared_code(stage)
    assert len(declared) <= LONGEST
    assert declared == sorted(set(declared))
    inside = [
        dep
        for dep in declared
        for other in declared
        if other != dep and covers(other, dep)
    ]
    assert inside == []


@each_stage
def test_what_writes_outputs_is_declared(stage: Stage) -> None:
    assert "stylerl/storage.py" in stage.deps


@each_stage
def test_parameters_are_declared_by_value(stage: Stage) -> None:
    """Each section that the stage's module takes from the parameters."""
    read = {
        node.attr
        for node in ast.walk(task_of(stage))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) in ("params", "config.load()")
    }
    sections = {key.partition(".")[0] for key in stage.params}
    assert read <= sections


@each_stage
def test_nothing_that_the_pipeline_says_is_measured(stage: Stage) -> None:
    """What a stage writes that is read is no value of stylerl/pipeline.

    A stage that only shows may say when and where; no stage reads it.
    """
    read = {dep for other in STAGES for dep in other.deps}
    if not any(covers(out, dep) for out in stage.outs for dep in read):
        assert not measures(stage)
        return
    task = task_of(stage)
    names = {
        alias.name
        for node in ast.walk(task)
        if isinstance(node, ast.ImportFrom)
        and node.module == "stylerl.pipeline"
        for alias in node.names
    }
    assert names
    written = [
        node
        for node in ast.walk(task)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("storage.write_")
    ]
    used = {
        node.id
        for call in written
        for node in ast.walk(call)
        if isinstance(node, ast.Name)
    }
    assert used & names == set()


@each_stage
def test_a_stage_has_one_name_everywhere(stage: Stage) -> None:
    assert stage.command == f"python -m tasks.{stage.name}"
    assert importlib.util.find_spec(f"tasks.{stage.name}")
    if measures(stage):
        assert stage.name in stage.params
        assert f"metrics/{stage.name}.json" in stage.outs


def test_a_stage_comes_after_those_that_it_reads() -> None:
    """The flow takes the stages in this order."""
    made: list[str] = []
    for stage in STAGES:
        later = [
            dep
            for dep in stage.deps
            if dep.startswith(("artifacts/", "metrics/"))
            and not any(covers(out, dep) for out in made)
        ]
        assert later == [], stage.name
        made += stage.outs


def test_every_stage_can_use_the_run_cache() -> None:
    # DVC switches it off for a stage that has an uncached `outs` entry
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for name, stage in declared.items():
        for out in stage["outs"]:
            for path, options in out.items():
                assert options.get("cache", True), f"{name}: {path}"
