"""The folder of a run: what may not be written is said before a run starts."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import files_of_at_most

from stylerl.errors import DiskError
from stylerl.pipeline import workspace

NOBODY = 65534
FOLDERS = (".", ".dvc/tmp", ".dvc/cache", "artifacts/ppo", "metrics", "home")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace that everyone may reach; pytest's folders are private."""
    made = Path(tempfile.mkdtemp())
    monkeypatch.chdir(made)
    for name in FOLDERS:
        Path(name).mkdir(parents=True, exist_ok=True)
    for at, *_ in os.walk("."):
        os.chmod(at, 0o777)
    yield made
    shutil.rmtree(made)


def said_to_another_user() -> str:
    """What `check_writable` says to a user who owns none of the files."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            workspace.check_writable(Path("home/.prefect"))
        except BaseException as error:
            os.write(theirs, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        return pipe.read()


@pytest.mark.parametrize("name", FOLDERS)
def test_another_user_s_folder_is_one_sentence(
    folder: Path, name: str
) -> None:
    assert said_to_another_user() == ""
    os.chmod(name, 0o555)
    assert said_to_another_user() == (
        f"DiskError: cannot write {folder / name}: the folder does not permit "
        "it; work in one of your own"
    )
    os.chmod(name, 0o777)


def test_no_room_is_one_sentence(folder: Path) -> None:
    words = "make room, or raise the limit"
    with files_of_at_most(4096), pytest.raises(DiskError, match=words):
        workspace.check_writable()
    assert not [path for path in folder.rglob("*") if path.is_file()]
