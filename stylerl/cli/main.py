"""The entry point of `stylerl`: how a command ends, whatever happens to it.

Exit codes: 0 it worked, 1 it worked and found something (judge, doctor),
2 the input is at fault, which one line explains, 129 the terminal is gone,
130 interrupted, 141 the reader of the output left, 143 terminated.

The commands are in commands.py.  Nothing but them imports what takes time,
so that Ctrl-C is answered while they do.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

ENDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal is gone",
}
READER_LEFT = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code.

    Without `arguments` those of the process are taken; the signals are then
    ours until it ends.
    """
    caught: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if caught:  # someone cannot wait; what we started ends with us
            os._exit(128 + number)
        caught.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    if arguments is None:
        _keep_standard_numbers()
        for number in ENDS:
            by_nohup = signal.getsignal(number) == signal.SIG_IGN
            if number != signal.SIGHUP or not by_nohup:
                signal.signal(number, stop)
    try:
        return _run(arguments)
    except BaseException as error:
        if not caught and not isinstance(error, KeyboardInterrupt):
            raise
        # Whatever the signal became: imports make other errors of it.
        number = signal.Signals(caught[0]) if caught else signal.SIGINT
        say(ENDS[number])
        return 128 + number
    finally:
        caught.append(0)


def _keep_standard_numbers() -> None:
    """Let no file get the number of a stream that was closed (`>&-`).

    What a library writes to number 2 would be in that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest number that is free; for children as well
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _run(arguments: Sequence[str] | None) -> int:
    """One command; what is the input's or the machine's fault is one line."""
    from stylerl.errors import ConfigError, StylerlError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of any locale
            stream.reconfigure(errors="backslashreplace")
    try:
        _check_working_directory()
        from stylerl.cli import commands

        options = commands.parser().parse_args(arguments)
        code = int(options.command(options) or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ConfigError as error:  # a cause of other words has several lines
        say(" ".join(str(error).split()))
    except StylerlError as error:
        say(str(error))
    except SystemExit as error:  # of argparse; of rich, where a pipe broke
        if isinstance(error.__context__, BrokenPipeError) or not _flushed():
            return READER_LEFT
        raise
    except BrokenPipeError:
        silence()
        return READER_LEFT
    except OSError as error:
        silence()
        text = " ".join(str(error).split())
        if "temporary directory" in text:
            text += ": name one that can be written by TMPDIR"
        say(text)
    return 2


def _check_working_directory() -> None:
    """Raise StylerlError where it was deleted, which libraries die of."""
    from stylerl.errors import StylerlError

    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise StylerlError(
            "the working directory must exist; it was deleted: cd to another"
        ) from error


def _flushed() -> bool:
    """Whether what was printed could be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence()
        return False
    return True


def silence() -> None:
    """Drop what the output still holds and cannot write."""
    try:
        sys.stdout.flush()
    except (OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(text: str) -> None:
    """Write a line to standard error, where anyone listens."""
    try:
        print(f"stylerl: {text}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


if __name__ == "__main__":
    sys.exit(main())
