"""The entry point of `stylerl`: exit codes and last messages.

Exit codes: 0 it worked, 1 it worked and found something (judge, doctor),
2 the input is at fault, which one line explains, 130 interrupted, 141 the
reader of the output left, 143 terminated.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence

READER_LEFT = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the process's own; its exit code."""
    from stylerl.errors import StylerlError

    if arguments is None:  # so that what a command started ends with it
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of any locale
            stream.reconfigure(errors="backslashreplace")
    try:
        from stylerl.cli import checkout, commands

        checkout.add_commands(sys.argv[1:] if arguments is None else arguments)
        options = commands.parser().parse_args(arguments)
        code = int(options.command(options) or 0)
        if sys.stdout:  # which may be closed
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        say("interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        silence()
        return READER_LEFT
    except ModuleNotFoundError as error:
        package, *_ = str(error.name).split(".")
        if package in ("stylerl", "flows"):
            raise
        say(
            f"this needs {package}, which is not installed: pip install "
            f"{package}; 'stylerl[train]' brings what most commands need, "
            "'stylerl[pipeline]' what a run does"
        )
        return 2
    except (StylerlError, OSError) as error:
        if isinstance(error, OSError):  # it may be the output's
            silence()
        say(" ".join(str(error).split()))
        return 2


def silence() -> None:
    """Drop what the output still holds and cannot write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(text: str) -> None:
    """Write a line to standard error."""
    print(f"stylerl: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
