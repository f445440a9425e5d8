"""Bodies that say nothing, by kind: what no reward may be pleased by.

Each kind is a template of a body's lines for some function, with its first
parameters as X, Y and Z (the same one where it has fewer, a builtin where it
has none) and its name as F.  All parse, and next to all comply.
"""

import ast
import re
import textwrap

KINDS: dict[str, str] = {}
# What only the file can tell from a body.
INVENTED = {
    "attributes of six letters": "return X.a, X.b, X.c, X.d, X.e, X.f",
    "attributes of five words": "return X.ash, X.elm, X.fir, X.oak, X.yew",
    "methods of what methods give": "return X.ash().elm().fir().oak().yew()",
    "methods": "X.ash()\nX.elm()\nX.fir()\nX.oak()\nreturn X.yew()",
    "attributes stored": "X.ash = X.elm\nX.fir = X.oak\nX.yew = X.box",
}


def kind(name: str, *lines: str) -> None:
    """Add a kind by its lines."""
    KINDS[name] = "\n".join(lines)


def chain(piece: str, times: int, start: int = 0) -> list[str]:
    """A piece again and again, with a count for each #."""
    return [piece.replace("#", str(i + start)) for i in range(times)]


# ---- constants: operators, displays, strings ------------------------------
kind("minus signs", "return " + "-" * 30 + "1")
kind("tildes", "return " + "~" * 30 + "0")
kind("nots", "return " + "not " * 12 + "True")
kind("tuple of numbers", "return (" + ", ".join("0123456789" * 2) + ")")
kind("list of zeros", "return [" + ", ".join("0" * 20) + "]")
kind("dict of zeros", "return {" + ", ".join(chain("#: 0", 10)) + "}")
kind("set of numbers", "return {" + ", ".join(chain("#", 12)) + "}")
kind("nested lists", "return " + "[" * 20 + "1" + "]" * 20)
kind("nested tuples", "return " + "((1, 2), (3, 4)), " * 3 + "(5, 6)")
kind("sum of zeros", "return " + " + ".join("0" * 16))
kind("product of numbers", "return " + " * ".join("23456789" * 2))
kind("mixed arithmetic", "return (1 + 2) * (3 - 4) // (5 + 6) % (7 - 8)")
kind("powers and shifts", "return 2 ** 3 << 4 >> 5 | 6 & 7 ^ 8")
kind("sum of strings", "return " + " + ".join(['""'] * 12))
kind("strings side by side", 'return "a" "b" "c" "d" "e" "f"')
kind("f-strings of constants", "return " + " + ".join(chain('f"{#}"', 7)))
kind("format of constants", 'return "{} {} {}".format(1, 2, 3)')
kind("percent of constants", 'return "%s %s %s" % (1, 2, 3)')
kind("string methods", 'return "a".upper().lower().strip().title()')
kind("join of constants", 'return ", ".join(["a", "b", "c"]).split(",")')
kind("slices of constants", "return [1, 2, 3, 4][1:][:2][::1][0:1]")
kind("subscripts of constants", "return {1: {2: {3: 4}}}[1][2][3]")
kind("comparison chain", "return 0 < 1 < 2 < 3 < 4 < 5 < 6 < 7 < 8")
kind("and-chain", "return " + " and ".join(["True", "1", "2", "3", "4"] * 2))
kind("conditional constants", "return 1 if 2 else 3 if 4 else 5 if 6 else 7")
kind("comprehension of constants", "return [i * 2 for i in range(10) if i]")
kind(
    "comprehension chain",
    "return [a for a in [b for b in [c for c in (1, 2, 3)]]]",
)
kind(
    "generator of constants", "return sum(i + j for i in (1, 2) for j in (3,))"
)
kind("dict comprehension", "return {i: str(i) for i in range(10) if i % 2}")
kind("nested parentheses", "return " + "(" * 20 + "1" + ")" * 20)
kind("builtin attributes", "return int.__class__.__class__.__class__.__name__")
kind("builtin calls", "return len(str(abs(int(float(max(1, 2))))))")
kind("print of numbers", "print(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)")
kind("prints", *chain('print("line #")', 8))
kind("raise of numbers", "raise Exception(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)")
kind("return of Nones", "return " + ", ".join(["None"] * 12))
kind("walrus chain", "return (a := (b := (c := (d := (e := 1)))))")
kind("lambda in a lambda", "return lambda: lambda: lambda: lambda: 0")
kind("lambda with defaults", "return lambda a=1, b=2, c=3, d=4: (5, 6, 7)")
kind("called lambdas", "return (lambda a: (lambda b: b + 1)(a + 2))(3)")
kind("starred constants", "return [*(1, 2), *(3, 4), *[5, 6], *{7, 8}]")
kind("complex and bytes", "return b'a' + b'b', 1j * 2j, 3.0 / 4.0, 0x10")
kind("ellipses", "return ..., ..., ..., ..., ..., ...")
kind("isinstance of constants", "return isinstance(1, int) and callable(len)")

# ---- operators between an input and a constant ----------------------------
kind("sums of a parameter", "return X + 1, X - 2, X * 3, X // 4, X % 5")
kind("a chain of operators", "return ((X + 1) * 2 - 3) // 4 % 5")
kind("comparisons of a parameter", "return X == 1, X < 2, X > 3, X != 4")
kind(
    "operators in turn", "X = X + 1", "X = X * 2", "X = X - 3", "return X % 4"
)

# ---- names that carry nothing ----------------------------------------------
kind("numbered zeros", *chain("a# = 0", 10))
kind(
    "numbered zeros returned", *chain("a# = #", 6), "return a0 + a1 + a2 + a5"
)
kind("constant bookkeeping", "a = 1", "b = a + 1", "c = b * a", "return c - a")
kind("tuple assignment", "a, b, c, d = 1, 2, 3, 4", "return a, b, c, d")
kind("copies", "a = X", "b = a", "c = b", "d = c", "e = d", "return e")
kind("self-assignment", *["X = X"] * 8)
kind("dead sums", *chain("a# = X + #", 8), "return X")
kind("dead calls of builtins", *chain("a# = len(X)", 6), "return None")
kind("overwritten", *chain("a = [X, Y, #]", 6), "a = 0", "return a")
kind("annotations", *chain("a#: int = #", 8), "return a1")
kind("bare annotations", *chain("a#: dict[str, list[int]]", 6), "return X")
kind(
    "deletions",
    *[line for i in range(5) for line in (f"a{i} = X", f"del a{i}")],
)
kind("globals", "global a, b, c, d", "a = 1", "b = 2", "c = a", "d = b")
kind("swap", "a, b = X, Y", "b, a = a, b", "a, b = b, a", "return a, b")
kind(
    "undefined calls",
    "return foo(bar(baz(qux(quux(corge(grault(1)))))))",
)
kind("undefined calls of X", "return foo(bar(baz(qux(quux(corge(X))))))")
kind("undefined statements", *chain("helper#(value#)", 6))
kind("undefined attributes", "return alpha.beta.gamma.delta.epsilon.zeta")
kind("undefined sum", "return " + " + ".join(chain("value#", 8)))
kind("unused imports", "import os", "import sys", "import re", "import json")
kind("imports and nothing", "import os", "from sys import argv", "return None")
kind(
    "imported attributes",
    "import os",
    "return os.path.os.path.os.path.os.path",
)

# ---- parameters shuffled ---------------------------------------------------
kind("parameter", "return X")
kind("parameters in a tuple", "return X, Y, X, Y, X, Y, X, Y")
kind("nested tuples of X", "return ((X, X), (X, X)), ((X, X), (X, X))")
kind("list of X", "return [X, X, X, X, X, X, X, X, X, X]")
kind("dict of X", "return {" + ", ".join(chain("#: X", 8)) + "}")
kind("repeated calls of F", "return F(X, X, X)")
kind("calls in calls of F", "return F(F(F(F(F(F(X))))))")
kind("calls of X", "return X(X, X)(X, X)(X, X)(X)")
kind("statements of F", *chain("F(X, #)", 8))
kind("X.x.x.x", "return X.x.x.x.x.x.x.x.x.x.x")
kind("X.a.b.c", "return X.a.b.c.d.e.f.g.h.i.j.k")
kind("X[0][0]", "return X[0][0][0][0][0][0][0][0]")
kind("X[1:][1:]", "return X[1:][1:][2:][2:][3:][3:][:4]")
kind("sum of X", "return " + " + ".join(["X"] * 12))
kind("minus X", "return " + "-" * 20 + "X")
kind("not X", "return " + "not " * 12 + "X")
kind("X and X", "return " + " and ".join(["X"] * 10))
kind("X == X", "return X == X == X and X is X and X <= X")
kind(
    "bare comparisons", "X == Y", "X != Y", "X < Y", "X is Y", "X > 1", "Y > 2"
)
kind("bare expressions", "X + Y", "X - Y", "X, Y", "[X, Y]", "X if X else Y")
kind("bare attributes", *chain("X.a#", 8))
kind("isinstance chain", "return isinstance(X, int) or isinstance(X, str)")
kind(
    "long isinstance chain",
    "return (",
    "    isinstance(X, int)",
    "    or isinstance(X, str)",
    "    or isinstance(X, float)",
    "    or isinstance(X, list)",
    "    or isinstance(X, dict)",
    ")",
)
kind("X = X + 1", *chain("X = X + #", 8), "return X")
kind("X += 1", *["X += 1"] * 3, *chain("X += #", 6), "return X")
kind("casts", "return str(int(str(int(str(int(str(X)))))))")
kind("f-string of X", 'return f"{X}{X}{X}{X}{X}{X}"')
kind("conditional X", "return X if X else X if Y else Y if X else X")
kind("comprehension of X", "return [X for _ in range(10) for _ in range(10)]")
kind("lambdas of X", "return lambda: lambda: lambda: lambda: X")
kind("walrus of X", "return (a := (b := (c := (d := (e := X)))))")
kind("starred X", "return [*X, *X, *X, *X, *X, *X]")
kind("print of X", "print(X, X, X, X, X, X, X, X)")
kind("prints of X", *chain('print("#", X)', 8))

# ---- control flow that decides nothing -------------------------------------
kind("code after return", "return None", *chain("X = F(Y, #)", 4), "Y = X[0]")
kind("code after raise", "raise ValueError", "a = [X, Y]", "return len(a) + X")
kind(
    "if False",
    "if False:",
    "    a = F(X)",
    "    b = [i for i in a if i]",
    "    return len(b) + Y",
)
kind("if 0 == 1", "if 0 == 1:", "    a = F(X, Y)", "    return a[0] + X.b")
kind(
    "if not True", "if not True:", "    return F(X)[Y].a + len(X)", "return 0"
)
kind("while False", "while False:", "    X = F(X)", "    Y.append(X[0])")
kind("for of nothing", "for _ in ():", "    X = F(X)", "    Y.append(X[0])")
kind("while True break", "while True:", "    break", "return None")
kind(
    "code after break",
    "while True:",
    "    break",
    "    X = F(Y[0].a)",
    "    Y = X",
)
kind(
    "constant loop", "for i in range(10):", "    a = i * 2 + 1", "return None"
)
kind("passing loop", "for i in X:", "    pass", "for j in Y:", "    continue")
kind(
    "nested loops",
    "for i in range(3):",
    "    for j in range(4):",
    "        for k in range(5):",
    "            print(i, j, k)",
)
kind("empty try", "try:", "    pass", "except ValueError:", "    pass")
kind(
    "try around numbers",
    "try:",
    "    a = 1",
    "except (TypeError, ValueError):",
    "    a = 2",
    "finally:",
    "    b = 3",
    "return a, 4",
)
kind("with nothing", "with X:", "    pass", "with Y:", "    pass")
kind("with open", 'with open("a") as f, open("b") as g:', "    pass")
kind("asserts", *chain("assert # == #", 5), 'assert True, "never"')
kind("asserts of X", "assert X == X", "assert X is X", "assert X or not X")
kind("passes", *["pass"] * 8)
kind(
    "docstring",
    '"""Do the thing that is to be done.',
    *["", "It does what it says, and more of it."] * 6,
    '"""',
)
kind("comments", *["# do here what has to be done here"] * 10, "return None")
kind("yields", *["yield None"] * 4, "yield 1", "yield 2")
kind("nested conditions", "return None if X else (0, 1, [2, 3], {4: 5})")
kind(
    "padding branches",
    "if X == 1:",
    "    return 1",
    "elif X == 2:",
    "    return 2",
    "elif X == 3:",
    "    return 3",
    "else:",
    "    return 4",
)
kind(
    "branches of one call",
    "if X:",
    "    return F(0)",
    "elif Y:",
    "    return F(X)",
    "else:",
    "    return F(len(X))",
)
kind("same branches", "if X:", "    return Y", "else:", "    return Y")
kind(
    "if X return X",
    "if X:",
    "    return X",
    "elif Y:",
    "    return X",
    "return X",
)
kind(
    "if pass", "if X:", "    pass", "elif Y:", "    pass", "else:", "    pass"
)
kind(
    "match",
    "match X:",
    "    case 1:",
    "        return 1",
    "    case _:",
    "        return 2",
)
kind(
    "nested ifs",
    "if X:",
    "    if X:",
    "        if X:",
    "            if X:",
    "                return X",
)
kind(
    "uncalled functions",
    "def helper(a, b):",
    "    c = a.run(b)",
    "    return [c, len(a), b + 1]",
    "",
    "return None",
)
kind(
    "decorated functions",
    "@staticmethod",
    "def helper(a):",
    "    return a",
    "",
    "@helper",
    "def other(b):",
    "    return b",
)
kind(
    "empty class",
    "class Helper:",
    "    a = 1",
    "    b = 2",
    "",
    "return Helper",
)
kind("prompt again", "def F(X):", "    return X", "", "return F")
kind("constants onto X", *chain("X.a# = #", 8))
kind("one constant onto X", "X.a = X.b = X.c = X.d = X.e = 0")
kind("raise from", "raise ValueError(1) from TypeError(2)")
kind("return of types", "return int, str, float, list, dict, set, tuple, bool")
kind("getattr chain", 'return getattr(getattr(getattr(X, "a"), "b"), "c")')


def body(name: str, prompt: str) -> str:
    """The body of a kind for a prompt, which ends with its header or text."""
    node = ast.parse(prompt + "\n    pass").body[-1]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    spec = node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    names = (names or ["object"]) * 3
    found = (KINDS | INVENTED)[name]
    for sign, new in zip("XYZF", [*names[:3], node.name], strict=True):
        found = re.sub(rf"\b{sign}\b", new, found)
    return "\n" + textwrap.indent(found, "    ") + "\n"
