"""Where raw Python files come from: the environment, a hub, a path.

`collect` writes the corpus that every run starts from:

    data/corpus.parquet   one row a file: distribution, version, licence,
                          path, content (the raw bytes)
    data/manifest.json    the source, and files and bytes by distribution

The same source gives the same bytes on every machine, whatever the order in
which packages were installed; `dvc status data.dvc` holds it to that.
"""

import importlib.metadata
import itertools
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from stylerl import storage
from stylerl.data.places import rows_of
from stylerl.errors import DataError

ROWS_A_GROUP = 512
HUB_DATASET = "codeparrot/codeparrot-clean"
TEXT_COLUMNS = ("content", "text", "code")
ORIGIN_COLUMNS = ("repo_name", "path", "license")
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "venv"}
Skipped = Counter[str]  # files by the reason why they were left out


class SourceFile(NamedTuple):
    """One raw file, with the origin that its licence asks us to keep."""

    distribution: str
    version: str
    licence: str
    path: str
    content: bytes


SCHEMA = pa.schema(
    [
        (name, pa.binary() if name == "content" else pa.string())
        for name in SourceFile._fields
    ]
)


def collect(files: Iterable[SourceFile], source: str, folder: Path) -> int:
    """Write corpus and manifest into `folder`; return the files written.

    Raises:
        DataError: the source gave no file, or `folder` holds files of others.
    """
    names = {path.name for path in folder.glob("*")}
    if others := sorted(names - {"corpus.parquet", "manifest.json"}):
        raise DataError(
            f"{folder} is replaced, and must hold nothing of others; it holds "
            f"{others[0]}: move it elsewhere"
        )
    counts: dict[str, dict[str, Any]] = {}
    with storage.replacing(folder) as scratch:
        scratch.mkdir()
        with pq.ParquetWriter(
            scratch / "corpus.parquet", SCHEMA, compression="zstd"
        ) as writer:
            bar = iter(tqdm(files, desc="collect", unit=" files"))
            while group := list(itertools.islice(bar, ROWS_A_GROUP)):
                columns = list(zip(*group, strict=True))
                writer.write_table(pa.table(columns, schema=SCHEMA))
                for file in group:
                    _count(counts, file)
        total = sum(entry["files"] for entry in counts.values())
        if not total:
            raise DataError(
                f"source {source!r} holds no Python file (of a git checkout, "
                "what git tracks), and no row with a text; name another one "
                "(stylerl collect --help)"
            )
        storage.write_json(
            scratch / "manifest.json",
            {"source": source, "files": total, "distributions": counts},
        )
    return total


def _count(counts: dict[str, dict[str, Any]], file: SourceFile) -> None:
    origin = {"version": file.version, "licence": file.licence}
    entry = counts.setdefault(
        file.distribution, {**origin, "files": 0, "bytes": 0}
    )
    entry["files"] += 1
    entry["bytes"] += len(file.content)


# --- environment: the pure-Python distributions pinned in the lock ---------


def environment_files(lock: Path) -> Iterator[SourceFile]:
    """Yield the modules of every pure-Python distribution in `lock`.

    Sorted by distribution and path.  A path that two distributions install
    with different content is left out, since the order of installation
    decides which one is there; with equal content it is the first's.

    Raises:
        DataError: a pinned distribution is missing, or of another version.
    """
    owners: dict[str, set[str]] = {}
    pure = []
    for name, version in _pins(lock):
        distribution = _installed(name, version, lock)
        modules = _recorded_modules(distribution)
        for path, digest in modules.items():
            owners.setdefault(path, set()).add(digest)
        if _is_pure(distribution):
            pure.append((name, version, distribution, modules))
    taken: set[str] = set()
    for name, version, distribution, modules in pure:
        licence = _licence(distribution.metadata)
        for path in sorted(modules):
            if len(owners[path]) == 1 and path not in taken:
                taken.add(path)
                file = Path(str(distribution.locate_file(path)))
                content = file.read_bytes()
                yield SourceFile(name, version, licence, path, content)


def _pins(lock: Path) -> list[tuple[str, str]]:
    """Sorted (normalised name, version) of every `name==version` line."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    pins = [re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in lines]
    return sorted(
        (re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2]) for pin in pins if pin
    )


def _installed(
    name: str, version: str, lock: Path
) -> importlib.metadata.Distribution:
    installed = next(iter(importlib.metadata.distributions(name=name)), None)
    # A local build, such as torch's 2.13.0+cpu, counts as its version.
    if installed is None or installed.version.partition("+")[0] != version:
        raise DataError(
            f"{lock} pins {name}=={version}; installed is "
            f"{installed.version if installed else 'none'}: pip install -r "
            f"{lock}"
        )
    return installed


def _is_pure(distribution: importlib.metadata.Distribution) -> bool:
    """Whether the wheel is the same one on every platform."""
    wheel = distribution.read_text("WHEEL") or ""
    tags = re.findall(r"^Tag: (\S+)", wheel, re.MULTILINE)
    return bool(tags) and all(tag.endswith("-none-any") for tag in tags)


def _recorded_modules(
    distribution: importlib.metadata.Distribution,
) -> dict[str, str]:
    """Path inside site-packages -> recorded sha256 of each module."""
    return {
        file.as_posix(): file.hash.value
        for file in distribution.files or []
        if file.suffix == ".py" and file.hash and ".." not in file.parts
    }


def _licence(metadata: Any) -> str:
    """The licence a distribution declares, as one short line."""
    for key in ("License-Expression", "License"):
        text = (metadata.get(key) or "").strip()
        if text and len(text) < 100 and "\n" not in text:
            return str(text)
    names = [
        entry.rpartition(" :: ")[2]
        for entry in metadata.get_all("Classifier") or []
        if entry.startswith("License ::")
    ]
    return ", ".join(names) or "see the distribution"


# --- path: the user's own code ---------------------------------------------


def path_files(path: Path, skipped: Skipped) -> Iterator[SourceFile]:
    """Yield the Python files of a folder, a git checkout, JSONL or parquet.

    In a git checkout only tracked files count, and one that git cannot read
    is a folder.  A table needs a column `content`, `text` or `code`;
    `repo_name`, `path` and `license` are kept where they exist, and what else
    it has does not matter.  `skipped` counts the files of a folder, and the
    rows of a table, left out.

    Raises:
        DataError: nothing is there, or the table cannot be read.
    """
    if path.is_dir():
        yield from _folder_files(path, skipped)
    elif path.suffix in (".jsonl", ".parquet") and path.is_file():
        try:
            yield from _with_text(_rows(path), path.stem, skipped)
        except (OSError, ValueError) as error:  # pyarrow, text
            raise DataError(
                f"cannot read {path}: {error}; it must be JSON lines, or a "
                "parquet table"
            ) from error
    else:
        raise DataError(
            f"{path} must be a folder, or a .jsonl or .parquet file that "
            "exists; clone a repository first"
        )


def _rows(path: Path) -> Iterator[Any]:
    """The rows of a table."""
    if path.suffix == ".parquet":
        yield from rows_of(path, [*TEXT_COLUMNS, *ORIGIN_COLUMNS])
    else:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _row(line, f"{path}, line {number}")


def _row(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} must be JSON: {error}") from error


def _with_text(
    rows: Iterable[Any], origin: str, skipped: Skipped
) -> Iterator[SourceFile]:
    """The files of a table's rows; those that have none are counted."""
    for number, row in enumerate(rows):
        if file := _from_row(row, origin, number):
            yield file
        else:
            skipped[f"rows without {', '.join(TEXT_COLUMNS)}"] += 1


def _folder_files(folder: Path, skipped: Skipped) -> Iterator[SourceFile]:
    commit = _git(folder, "rev-parse", "-q", "--verify", "HEAD").strip()
    if commit:
        names = _listed(folder)
        untracked = _listed(folder, "--others", "--exclude-standard")
        skipped["not tracked by git"] += len(untracked)
    else:
        files = [f.relative_to(folder) for f in folder.rglob("*.py")]
        names = [
            file.as_posix()
            for file in files
            if not SKIPPED_FOLDERS.intersection(file.parts)
            if not any(part.startswith(".") for part in file.parts)
        ]
        foreign = f"hidden, or in {', '.join(sorted(SKIPPED_FOLDERS))}"
        skipped[foreign] += len(files) - len(names)
    root = folder.resolve()
    origin = _name(root.name)
    for name in sorted(names):
        file = folder / name
        # A link may lead to what is not the project's.
        if not (file.is_file() and file.resolve().is_relative_to(root)):
            skipped["no regular file of the folder"] += 1
            continue
        try:
            content = file.read_bytes()
        except OSError:
            skipped["that cannot be read"] += 1
            continue
        yield SourceFile(origin, commit, "", _name(name), content)


def _listed(folder: Path, *options: str) -> list[str]:
    """The Python files that git lists."""
    listing = _git(folder, "ls-files", "-z", *options, "*.py")
    return [name for name in listing.split("\0") if name]


def _git(folder: Path, *arguments: str) -> str:
    """Output of a git command; "" where it fails.

    Of the folder's own repository, whoever owns it, and whatever a hook of
    another one has in the environment; its configuration runs nothing.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    safe = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
    return subprocess.run(
        ["git", *safe, "-C", str(folder), *arguments],
        env=env,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    ).stdout


# --- hub: streamed through `datasets` --------------------------------------


def hub_files(name: str, limit: int, skipped: Skipped) -> Iterator[SourceFile]:
    """Stream the first `limit` files (0: all) of a hub data set.

    `name` is a repository on the hub or a local folder in its format;
    `skipped` counts the rows without a text.

    Raises:
        DataError: the hub cannot be reached, or `limit` is out of range.
    """
    if limit < 0:
        raise DataError(f"--limit must be 0, for all, or more; got {limit}")
    import datasets  # 2 s to import, and only this source needs it

    try:
        rows: Iterable[Mapping[str, Any]] = datasets.load_dataset(
            name, split="train", streaming=True
        )
        files = _with_text(rows, name, skipped)
        yield from itertools.islice(files, limit or None)
    except (
        OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError
    ) as error:  # fmt: skip
        raise DataError(
            f"cannot read the data set {name!r}: {error}; check the name and "
            "the network, or collect from --source path"
        ) from error


def _from_row(row: Any, origin: str, number: int) -> SourceFile | None:
    """The file of a row of a table; None for one that has no text."""
    if not isinstance(row, Mapping):
        return None
    texts = (row.get(column) for column in TEXT_COLUMNS)
    text = next((t for t in texts if t and isinstance(t, str | bytes)), None)
    if text is None:
        return None
    if isinstance(text, str):
        text = text.encode("utf-8", errors="surrogatepass")
    return SourceFile(
        _name(row.get("repo_name")) or origin,
        "",
        _name(row.get("license")),
        _name(row.get("path")) or f"{number:09d}.py",
        text,
    )


def _name(value: Any) -> str:
    """A value as text that can be written; "" for none."""
    return str(value or "").encode(errors="backslashreplace").decode()
