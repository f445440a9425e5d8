"""Exit codes of a stage, and children that die with their parent."""

import errno
import gc
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import alive, wait_for

from stylerl.errors import DataError, ModelError
from stylerl.pipeline import child, process


class ConnectTimeout(Exception):
    """Named as httpx names it; httpx is not a dependency of ours."""


def raising(
    error: BaseException, cause: BaseException | None = None
) -> Callable[[], None]:
    def main() -> None:
        raise error from cause

    return main


@pytest.fixture(autouse=True)
def no_death_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test process itself is not to be tied to its parent."""
    monkeypatch.setattr(process, "die_with_parent", lambda: None)


@pytest.mark.parametrize(
    ("main", "code"),
    [
        (raising(DataError("empty")), process.USER_ERROR),
        (raising(OSError(errno.ENOSPC, "full", "/tmp/x")), process.USER_ERROR),
        (raising(PermissionError(errno.EACCES, "no")), process.USER_ERROR),
        (raising(ModelError("no hub"), TimeoutError()), process.TRANSIENT),
        (raising(ConnectionResetError("gone")), process.TRANSIENT),
        (raising(ConnectTimeout("slow")), process.TRANSIENT),
        (raising(OSError("hub"), ConnectTimeout()), process.TRANSIENT),
    ],
)
def test_the_exit_code_says_what_a_failure_means(
    main: Callable[[], None], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        process.run_main(main)
    assert left.value.code == code
    # one line, `Type: message`, and no traceback
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(KeyError):
        process.run_main(raising(KeyError("bug")))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def run(code: str) -> tuple[list[str], child.ExitStatus]:
    lines: list[str] = []
    outcome = child.run_command(python(code), lines.append)
    return lines, outcome


def test_lines_and_bars_are_told_apart() -> None:
    bar = "'\\r 10%|#  |', '\\r100%|###|', '\\n'"
    lines, outcome = run(
        "import sys\n"
        "print('first'); sys.stdout.flush()\n"
        f"[print(text, end='', flush=True) for text in ({bar})]\n"
        "print('é last', end='')"
    )
    # of a bar only the last state is a line, once it is ended
    assert lines == ["first", "100%|###|", "é last"]
    assert outcome == (0, "first\n100%|###|\né last")


def test_a_message_beside_a_bar_is_a_line_of_its_own() -> None:
    # what tqdm.write does: wipe the bar, write, draw the bar again
    texts = "'\\r10%|#|', '\\r     \\r', 'note', '\\n', '\\r20%|##|', '\\n'"
    lines, _ = run(
        "import time\n"
        f"for text in ({texts}):\n"
        "    print(text, end='', flush=True); time.sleep(0.1)"
    )
    assert lines == ["note", "20%|##|"]


def test_a_long_bar_is_logged_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "BAR_EVERY", 0.2)
    lines, _ = run(
        "import time\n"
        "for n in range(8):\n"
        "    print(f'\\r{n}/8', end='', flush=True); time.sleep(0.1)"
    )
    assert lines[-1] == "7/8"
    assert 2 <= len(lines) <= 5  # 0.8 s at one each 0.2 s, never all 8


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(75)", 75),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_how_a_child_ended(code: str, expected: int) -> None:
    assert run(code)[1].code == expected


def test_environment_reaches_the_child() -> None:
    lines: list[str] = []
    code = (
        "import os; print(os.environ['STAGE'], os.getsid(0) == os.getppid())"
    )
    child.run_command(python(code), lines.append, {"STAGE": "sft"})
    assert lines == ["sft True"]  # in a session of its own


def test_an_interrupt_ends_the_child_and_its_children(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "grandchild = subprocess.Popen(['sleep', '60'])\n"
        "print(os.getpid(), grandchild.pid, flush=True)\n"
        "time.sleep(60)"
    )
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.extend(int(word) for word in line.split())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.run_command(python(code), interrupt)
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
def test_a_killed_parent_takes_even_a_shells_child_along() -> None:
    code = (
        "from stylerl.pipeline import child\n"
        "child.run_command(['sh', '-c', 'sleep 60 & echo $!; wait'],"
        " lambda line: print(line, flush=True))"
    )
    parent = subprocess.Popen(python(code), stdout=subprocess.PIPE)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not alive(pid), 10)


def test_what_is_imported_is_not_searched_for_garbage() -> None:
    before = gc.get_freeze_count()
    with pytest.raises(ImportError), process.importing():
        assert not gc.isenabled()
        raise ImportError("no such package")
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
