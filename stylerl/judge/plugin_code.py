"""The code that a plugin is made of: its modules, and what they import."""

import ast
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from stylerl.errors import ConfigError

INSTALLED = {"site-packages", "dist-packages"}  # pip's folders
STANDARD = Path(os.__file__).parent


def digests(
    modules: Iterable[str], folders: Iterable[str] = (), whole: bool = False
) -> dict[str, str]:
    """A digest for each module of a plugin, by name.

    Imports are followed wherever in a file they are, as far as they lead to
    what is neither Python's own nor installed.

    Args:
        modules: where the plugin begins.
        folders: where it looks for modules after sys.path.
        whole: count what is installed too, of the packages they are in.
    """
    path = [*module_path(), *folders]
    waiting = {*modules}
    packages = {name.partition(".")[0] for name in waiting if whole}

    @functools.cache
    def find(name: str) -> ModuleSpec | None:
        above, _, _ = name.rpartition(".")
        if not above:
            return _find(name, path)
        parent = find(above)
        places = parent and parent.submodule_search_locations
        return PathFinder.find_spec(name, places) if places else None

    found: dict[str, str] = {}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        spec = find(name)
        if spec is None or not spec.origin or not spec.has_location:
            continue
        file = Path(spec.origin)
        if _is_installed(file) and name.partition(".")[0] not in packages:
            continue
        with suppress(OSError):  # flake8 will say so
            content = file.read_bytes()
            found[name] = hashlib.sha256(content).hexdigest()
            imports = _imports(content, name, spec.parent or "")
            waiting |= imports - seen
    return found


def module_path() -> list[str]:
    """This process's sys.path, the working directory last.

    A file in the working directory that is called like one of flake8's
    modules must not be taken for it.
    """
    folder = working_directory()
    here = {"", folder}
    return [*(p for p in sys.path if p not in here), folder]


def working_directory() -> str:
    """The folder that relative names are relative to.

    Raises:
        ConfigError: it was deleted.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(
            f"the working directory must exist: {error.strerror}"
        ) from error


def _find(name: str, path: list[str]) -> ModuleSpec | None:
    """A module that is not part of another, Python's own left out."""
    if name in sys.stdlib_module_names:
        return None
    with suppress(ImportError, ValueError):  # ValueError: it has no spec
        # What pip installed from a folder to be edited, a hook may know.
        return PathFinder.find_spec(name, path) or importlib.util.find_spec(
            name
        )
    return None


def _is_installed(file: Path) -> bool:
    return not INSTALLED.isdisjoint(file.parts) or STANDARD in file.parents


@functools.lru_cache(1024)
def _imports(content: bytes, name: str, package: str) -> frozenset[str]:
    """The modules that a module may import, and the packages of these."""
    try:
        nodes = [*ast.walk(ast.parse(content))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names = {name}
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=module, names=aliases, level=level):
                with suppress(ImportError):  # above the first package
                    base = importlib.util.resolve_name(
                        "." * level + (module or ""), package
                    )
                    names |= {base, *(f"{base}.{a.name}" for a in aliases)}
            case ast.Call(args=[ast.Constant(value=str(text)), *_]):
                if text.replace(".", "_").isidentifier():  # import_module
                    with suppress(ImportError):
                        names.add(importlib.util.resolve_name(text, package))
    for each in [*names]:
        parts = each.split(".")
        names |= {".".join(parts[:n]) for n in range(1, len(parts))}
    return frozenset(names)
