"""Sources: the environment, a folder, a checkout, tables and the hub."""

import base64
import gzip
import hashlib
import importlib.metadata
import json
import os
import shutil

import pandas as pd
import pytest
from conftest import git

from stylerl import storage
from stylerl.data import sources
from stylerl.errors import DataError

NAMES = {"000000000.py", "000000001.py"}
SKIPPED = sources.Skipped()  # where nobody asks what was


def names(files):
    return [(file.distribution, file.path) for file in files]


# --- environment: distributions installed into a temporary site ------------


def install(site, name, files, version="1.0", tag="py3-none-any"):
    """Lay a wheel out in `site` as pip does: modules, then metadata."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    record = []
    for path, source in files.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        raw = base64.urlsafe_b64encode(
            hashlib.sha256(source.encode()).digest()
        )
        digest = raw.decode().rstrip("=")
        record.append(f"{path},sha256={digest},{len(source)}")
    (info / "RECORD").write_text("\n".join(record) + "\n")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
        "License-Expression: MIT\n"
    )


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty site-packages that importlib.metadata reads."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr("sys.path", [str(folder)])
    importlib.metadata.MetadataPathFinder().invalidate_caches()
    return folder


def lock(tmp_path, *pins):
    path = tmp_path / "requirements.lock"
    path.write_text("\n".join(pins) + "\n")
    return path


WHEELS = {
    "alpha": {"alpha/b.py": "b = 1\n", "alpha/a.py": "a = 1\n"},
    "beta_x": {"beta.py": "x = 1\n", "tests/__init__.py": "# beta\n"},
    "gamma": {"tests/__init__.py": "# gamma\n", "alpha/a.py": "a = 1\n"},
}
PINS = ["gamma==1.0", "Beta.X==1.0", "alpha==1.0", "# a comment", ""]


@pytest.mark.parametrize(
    "order", [["alpha", "beta_x", "gamma"], ["gamma", "beta_x", "alpha"]]
)
def test_the_order_of_installation_changes_nothing(site, tmp_path, order):
    for name in order:
        install(site, name, WHEELS[name])
    files = list(sources.environment_files(lock(tmp_path, *PINS)))
    # tests/__init__.py is two packages' own and left out; alpha/a.py is
    # the same in both and belongs to the first.
    assert names(files) == [
        ("alpha", "alpha/a.py"),
        ("alpha", "alpha/b.py"),
        ("beta-x", "beta.py"),
    ]
    assert {(f.version, f.licence) for f in files} == {("1.0", "MIT")}
    assert [f.content for f in files] == [b"a = 1\n", b"b = 1\n", b"x = 1\n"]


def test_platform_wheels_and_what_is_not_pinned_are_left_out(site, tmp_path):
    install(site, "alpha", WHEELS["alpha"], tag="cp311-cp311-linux_x86_64")
    install(site, "beta_x", WHEELS["beta_x"])
    install(site, "stray", {"stray.py": "s = 1\n"})
    pins = lock(tmp_path, "alpha==1.0", "beta-x==1.0")
    files = sources.environment_files(pins)
    assert names(files) == [
        ("beta-x", "beta.py"),
        ("beta-x", "tests/__init__.py"),
    ]


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ("alpha==2.0", "pins alpha==2.0; installed is 1.0"),
        ("absent==1.0", "pins absent==1.0; installed is none"),
    ],
)
def test_an_environment_that_is_not_the_lock_is_refused(
    site, tmp_path, pin, message
):
    install(site, "alpha", WHEELS["alpha"])
    with pytest.raises(DataError, match=message):
        list(sources.environment_files(lock(tmp_path, pin)))


# --- path -------------------------------------------------------------------


def test_a_folder_gives_its_modules_and_what_it_does_not_is_counted(tmp_path):
    folder = tmp_path / "project"
    for name in ("b.py", "a/c.py", "venv/x.py", ".git/y.py", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / "out.py").symlink_to("/etc/hostname")
    (folder / "loop.py").symlink_to(folder / "loop.py")
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    skipped = sources.Skipped()
    assert names(sources.path_files(folder, skipped)) == [
        ("project", "a/c.py"),
        ("project", "b.py"),
    ]
    assert skipped == {
        "hidden, or in __pycache__, node_modules, site-packages, venv": 2,
        "no regular file of the folder": 4,
    }


def test_a_checkout_gives_tracked_files_at_its_commit(tmp_path):
    checkout(tmp_path / "mine", "x = 1\n")
    skipped = sources.Skipped()
    (file,) = sources.path_files(tmp_path / "mine", skipped)
    assert file.path == "a.py"
    assert skipped == {"not tracked by git": 1}
    assert len(file.version) == 40


def checkout(folder, text):
    """A repository with one module, a commit, and one file beside it."""
    folder.mkdir()
    (folder / "a.py").write_text(text)
    git("init", "-q", folder=folder)
    git("add", "a.py", folder=folder)
    git("commit", "-q", "-m", "one", folder=folder)
    (folder / "untracked.py").write_text("y = 2\n")


def test_a_checkouts_filters_and_hooks_do_not_run(tmp_path):
    """What `git status` would do for a file that looks changed."""
    checkout(tmp_path / "theirs", "x = 1\n")
    marks = [tmp_path / name for name in ("filter", "monitor", "hook")]
    folder = tmp_path / "theirs"
    (folder / ".gitattributes").write_text("*.py filter=evil\n")
    for key, mark in (("filter.evil.clean", 0), ("core.fsmonitor", 1)):
        git("config", key, f"touch {marks[mark]}; cat", folder=folder)
    hook = folder / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marks[2]}\n")
    hook.chmod(0o755)
    os.utime(folder / "a.py", (0, 0))
    (file,) = sources.path_files(folder, SKIPPED)
    assert len(file.version) == 40
    assert not [mark for mark in marks if mark.exists()]


def test_a_name_that_is_no_unicode_is_escaped(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("x = 1\n")
    (file,) = sources.path_files(tmp_path, SKIPPED)
    assert file.path == "\\udcff.py"


def test_a_file_that_cannot_be_read_is_counted(tmp_path, monkeypatch):
    """Not the folder that is written is at fault."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    read = sources.Path.read_bytes

    def refuse(path):
        if path.name == "b.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(sources.Path, "read_bytes", refuse)
    skipped = sources.Skipped()
    (file,) = sources.path_files(tmp_path, skipped)
    assert file.path == "a.py" and skipped["that cannot be read"] == 1


def test_a_repository_without_a_commit_is_a_folder(tmp_path):
    checkout(tmp_path / "mine", "x = 1\n")
    shutil.rmtree(tmp_path / "mine/.git")
    git("init", "-q", folder=tmp_path / "mine")
    files = list(sources.path_files(tmp_path / "mine", SKIPPED))
    assert [file.version for file in files] == ["", ""]


def test_a_checkout_whose_repository_is_gone_is_a_folder(tmp_path):
    checkout(tmp_path / "mine", "x = 1\n")
    shutil.rmtree(tmp_path / "mine/.git")
    (tmp_path / "mine/.git").write_text("gitdir: /gone/worktrees/mine\n")
    files = list(sources.path_files(tmp_path / "mine", SKIPPED))
    assert [file.version for file in files] == ["", ""]


def test_a_hook_of_another_repository_changes_nothing(tmp_path, monkeypatch):
    """Git tells its hooks a repository and an index, and obeys them."""
    checkout(tmp_path / "mine", "x = 1\n")
    checkout(tmp_path / "other", "z = 3\n")
    (expected,) = sources.path_files(tmp_path / "mine", SKIPPED)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    assert list(sources.path_files(tmp_path / "mine", SKIPPED)) == [expected]
    assert expected.content == b"x = 1\n" and len(expected.version) == 40


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_a_checkout_of_another_user_gives_tracked_files(tmp_path):
    checkout(tmp_path / "theirs", "x = 1\n")
    for path in (tmp_path / "theirs", *(tmp_path / "theirs").rglob("*")):
        os.chown(path, 65534, 65534)  # as root, in a container
    (file,) = sources.path_files(tmp_path / "theirs", SKIPPED)
    assert (file.path, len(file.version)) == ("a.py", 40)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_table_keeps_repository_path_and_licence(tmp_path, form):
    rows = [
        {
            "content": "x = 'é'\n",
            "repo_name": "me/it",
            "path": "a.py",
            "license": "mit",
        },
        {"content": "y = 1\n", "repo_name": "", "path": "", "license": ""},
    ]
    path = tmp_path / f"code.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pd.DataFrame(rows).to_parquet(path)
    assert list(sources.path_files(path, SKIPPED)) == [
        sources.SourceFile("me/it", "", "mit", "a.py", "x = 'é'\n".encode()),
        sources.SourceFile("code", "", "", "000000001.py", b"y = 1\n"),
    ]


JUNK = "x" * 11_000_000  # what `datasets` reads before it fixes the types


@pytest.mark.parametrize(
    ("name", "rows", "expected", "skipped"),
    [
        # a key that is null first, appears late, or changes its type
        (
            "a.jsonl",
            [
                {"code": "a", "stars": 3, "note": None, "junk": JUNK},
                {"code": "b", "stars": "n/a", "note": "late", "new": [1]},
            ],
            [b"a", b"b"],
            0,
        ),
        # rows without a text
        ("a.jsonl", [{"code": "a"}, {"code": None}, {}, 3], [b"a"], 3),
        ("a.parquet", [{"text": b"a"}, {"text": None}], [b"a"], 1),
        ("a.jsonl", [{"body": "x"}], [], 1),
        # a first row that is no object, and an empty text beside another
        ("a.jsonl", [[], {"code": "a"}], [b"a"], 1),
        ("a.jsonl", [{"content": "", "code": "a"}], [b"a"], 0),
    ],
)
def test_rows_as_they_come(tmp_path, name, rows, expected, skipped):
    path, counted = tmp_path / name, sources.Skipped()
    if name.endswith("parquet"):
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("\ufeff" + "\n".join(map(json.dumps, rows)) + "\n")
    files = list(sources.path_files(path, counted))
    assert [file.content for file in files] == expected
    assert counted["rows without content, text, code"] == skipped
    assert {file.path for file in files} <= NAMES


@pytest.mark.parametrize("name", ["absent", "notes.txt", "a.jsonl"])
def test_a_path_that_cannot_be_read_is_refused(tmp_path, name):
    (tmp_path / "notes.txt").write_text("hello")
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="must be a folder, or a .jsonl"):
        list(sources.path_files(tmp_path / name, SKIPPED))


# --- hub --------------------------------------------------------------------


def test_a_folder_in_the_hub_format_is_streamed_up_to_the_limit(tmp_path):
    for part in range(2):
        rows = [
            {
                "repo_name": f"r{part}",
                "path": f"{n}.py",
                "copies": "1",
                "content": f"x = {n}\n",
                "license": "mit",
            }
            for n in range(3)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        name = f"file-00000000000{part + 1}.json.gz"
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    files = list(sources.hub_files(str(tmp_path), 4, SKIPPED))
    assert names(files) == [
        ("r0", "0.py"),
        ("r0", "1.py"),
        ("r0", "2.py"),
        ("r1", "0.py"),
    ]


def test_a_hub_that_cannot_be_reached_says_what_to_do(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="collect from --source path"):
        list(sources.hub_files("nobody/nothing", 1, SKIPPED))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[]\n", "must be a folder, or a .jsonl"),
        ("a.parquet", "hello", "or a parquet table"),
        ("a.jsonl", "hello", "line 1 must be JSON"),
        ("a.jsonl", '{"code": "x"}\n\n{"code"', "line 3 must be JSON"),
        ("a.jsonl", b'{"code": "\xe9"}', "line 1 must be JSON"),
    ],
)
def test_a_table_that_is_none(tmp_path, name, content, message):
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError, match=message):
        list(sources.path_files(tmp_path / name, SKIPPED))


# --- collect ----------------------------------------------------------------


def test_the_manifest_counts_files_and_bytes(tmp_path):
    files = [
        sources.SourceFile("a", "1", "MIT", "x.py", b"12345"),
        sources.SourceFile("a", "1", "MIT", "y.py", b"\xff"),
    ]
    assert sources.collect(files, "test", tmp_path / "data") == 2
    manifest = storage.read_json(tmp_path / "data" / "manifest.json")
    entry = {"version": "1", "licence": "MIT", "files": 2, "bytes": 6}
    assert manifest == {
        "source": "test",
        "files": 2,
        "distributions": {"a": entry},
    }
    table = pd.read_parquet(tmp_path / "data" / "corpus.parquet")
    assert list(table["content"]) == [b"12345", b"\xff"]


def test_the_same_files_give_the_same_bytes(tmp_path):
    files = [
        sources.SourceFile("a", "1", "MIT", f"{n}.py", b"x = 1\n" * n)
        for n in range(2 * sources.ROWS_A_GROUP)
    ]
    for name in ("one", "two"):
        sources.collect(files, "test", tmp_path / name)
    for file in ("corpus.parquet", "manifest.json"):
        one, two = (tmp_path / name / file for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_an_empty_source_leaves_the_old_data_alone(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").touch()
    with pytest.raises(DataError, match="holds no Python file"):
        sources.collect([], "test", tmp_path / "data")
    assert (tmp_path / "data" / "manifest.json").exists()


def test_what_is_of_others_is_not_replaced(tmp_path):
    (tmp_path / "mine.jsonl").touch()
    with pytest.raises(DataError, match=r"it holds mine\.jsonl"):
        sources.collect([], "test", tmp_path)
    assert (tmp_path / "mine.jsonl").exists()
