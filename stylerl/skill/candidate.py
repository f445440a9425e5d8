"""What runs inside the sandbox: the model's function, answering calls.

It reads a line of literals at a time.  The first is the source and the
function's name; each other one the arguments of a call, whose value's `repr`
is the answer.  What the code prints goes to a file of the sandbox.  The tests
are not here: code that ends the process, patches `assert` or reads this
module's memory only gives no answer, or a wrong one.

Its text is given to `python -I -S -c`, so it imports the standard library
alone.
"""

import ast
import os
import resource
from typing import Any

MEMORY = 2**29  # bytes of address space
FILE = 2**20  # bytes of a file, what is printed included
SECONDS = 5  # of the processor
OUTPUT = "/tmp/output"


def main() -> None:
    """Serve calls until the sandbox is closed."""
    # 1. Limits, which nothing here may raise again.
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(kind, (limit, limit))
    # 2. The channel, and another place for what the code prints.
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sink = os.open(OUTPUT, os.O_RDWR | os.O_CREAT)
    for stream in (0, 1, 2):
        os.dup2(sink, stream)
    # 3. The function, and its answers.
    source, name = ast.literal_eval(requests.readline())
    space: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(source, "candidate.py", "exec"), space)
    for line in requests:
        arguments = ast.literal_eval(line)
        try:
            answer = "=" + repr(space[name](*arguments))
        except Exception:
            answer = "!"
        replies.write(ascii(answer) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
