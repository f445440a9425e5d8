"""The code that a plugin is made of: the files of its packages."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}  # pip's folders


def digests(
    modules: Iterable[str], folders: Iterable[str] = ()
) -> dict[str, str]:
    """A digest for each Python file of the plugin's packages.

    Of a module that is in none, it is that of its own file, and of those
    beside it that it names.  What it imports from elsewhere is not seen.

    Args:
        modules: where the plugin begins.
        folders: where it looks for modules after sys.path.
    """
    path = [*module_path(), *folders]
    by_plugin: dict[str, str] = {}
    for name in {module.partition(".")[0] for module in modules}:
        for number, file in enumerate(_files(_find(name, path))):
            content = hashlib.sha256(file.read_bytes())
            by_plugin[f"{name} {number} {file.name}"] = content.hexdigest()
    return by_plugin


def _files(spec: ModuleSpec | None) -> list[Path]:
    """The files of a package, or a module and the neighbours it names."""
    if spec is None:
        return []
    if spec.submodule_search_locations:
        places = map(Path, spec.submodule_search_locations)
        return sorted(file for at in places for file in at.rglob("*.py"))
    if not spec.origin or not spec.has_location:
        return []
    file = Path(spec.origin)
    if not INSTALLED.isdisjoint(file.parts) or not file.is_file():
        return [file]
    words = {file.stem, *re.findall(r"\w+", file.read_text(errors="replace"))}
    return sorted(f for f in file.parent.glob("*.py") if f.stem in words)


def module_path() -> list[str]:
    """This process's sys.path, the working directory last.

    A file in the working directory that is called like one of flake8's
    modules must not be taken for it.
    """
    folder = os.getcwd()
    here = {"", folder}
    return [*(p for p in sys.path if p not in here), folder]


def _find(name: str, path: list[str]) -> ModuleSpec | None:
    """A module that is not part of another."""
    with suppress(ImportError, ValueError):  # ValueError: it has no spec
        # What pip installed from a folder to be edited, a hook may know.
        return PathFinder.find_spec(name, path) or importlib.util.find_spec(
            name
        )
    return None
