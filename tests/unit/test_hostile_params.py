"""Parameter files that nobody should write: one clear error, or they hold.

Files and changes are drawn from a fixed seed; what is no file at all is in a
table.
"""

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stylerl import config
from stylerl.errors import ConfigError

FILES = 300
SEED = 13
NAN = float("nan")
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.0, 1e-300, 1e300, NAN),
    *(10**9, 10**12, 2**32, 2**63, -(2**64), 10**400, float("inf"), 2**15),
    *("", " ", "x", "e1", "E", "1e-5", "nan", "~", "~nobody/x", "a" * 300),
    *("a\nb", "\x1b[2J", "漢", "\u202e", "..", "/", "a/" * 2000, "data"),
    *([], [[]], [1], ["E"], ["e1"], [""], ["a\nb"], [None], ["E", ["W"]]),
    *({}, {"a": {}}, {"linter": 1}, {"linter": -1}, {"linter": "x"}, {3: 1}),
    *({"linter": 0}, {"a\nb": 1}, {"a.b:c": 2}, {"a/b": 1}),
]
TREES = [config.to_dict(config.from_preset(n)) for n in config.presets()]
# As text: what no Python value is dumped as.
TEXTS = [
    *("0b_", "0x_", "1_", "190:20:30", "2001-99-99", "!!int ''", "!!int x"),
    *("!!bool x", "!!timestamp x", "!!float x", "!!binary x", "!!set {a}"),
    *("!!python/object:os.system x", "*a", "&a [*a]", "<<: 3", "? [a]", "|"),
    *("9" * 5000, "[" * 30, "{a: " * 30, "- " * 30),
    *('"\\ud800"', '"\\0"', '"\\x41"', "\t", "'", "@", "`", "%", "\0"),
    *("{a: 1, a: 2}", "!!omap [a]", "1e999", ".inf", ".NaN"),
]


def draw(rng: random.Random) -> str:
    """A file that is almost one of parameters."""
    whole = copy.deepcopy(rng.choice(TREES))
    kept = rng.sample([*whole], 2)  # a few lines each, since there are many
    tree = {name: whole[name] for name in kept}
    for name in kept:
        if isinstance(section := tree[name], dict):
            chosen = rng.sample([*section], min(5, len(section)))
            tree[name] = {key: section[key] for key in chosen}
    for _ in range(rng.randint(1, 3)):
        name = rng.choice([*tree])
        section = tree[name] if isinstance(tree[name], dict) else tree
        key = rng.choice([*section] or [""])
        match rng.randrange(6):
            case 0:
                section[misspelt(str(key), rng)] = section.pop(key, None)
            case 1:
                tree[name] = rng.choice(VALUES)
            case 2:
                section[rng.choice([3, None, True, 1.5, "", "a.b"])] = 1
            case _:
                section[key] = rng.choice(VALUES)
    text = yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False)
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            lines[at] = lines[at].split(":")[0] + ": " + rng.choice(TEXTS)
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at] = " " * rng.randint(0, 5) + lines[at]
        case 3:
            return text[: rng.randrange(len(text))]
        case 4:
            lines[at] += rng.choice(TEXTS)
    return "\n".join(lines)


def misspelt(key: str, rng: random.Random) -> str:
    """A key near a right one."""
    at = rng.randrange(len(key) + 1)
    return key[:at] + rng.choice(["", "_", "A", "é", "\u200b"]) + key[at + 1 :]


def test_hostile_files(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    path, again = tmp_path / "params.yaml", tmp_path / "again.yaml"
    refused = 0
    for number in range(FILES):
        text = draw(rng)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            params = config.load(path)
        except ConfigError as error:
            assert one_line(str(error)), (number, text)
            refused += 1
        else:  # what is taken is written, and read again as the same
            again.write_text(config.render(params), encoding="utf-8")
            assert config.load(again) == params, (number, text)
    assert FILES / 2 < refused < FILES


def test_hostile_changes() -> None:
    """What `--set`, a grid or a deployment's `params` may hold."""
    rng = random.Random(SEED)
    keys = [
        f"{name}.{key}" if isinstance(section, dict) else name
        for name, section in TREES[0].items()
        for key in (section if isinstance(section, dict) else [""])
    ]
    refused = 0
    for _ in range(3 * FILES):
        key = rng.choice(keys)
        if rng.random() < 0.2:
            key = rng.choice(["", ".", "ppo", "ppo.", "a.b.c", key + ".x"])
        value = rng.choice(VALUES)
        try:
            config.override(config.Params(), {key: value})
        except ConfigError as error:
            assert one_line(str(error)), (key, value)
            refused += 1
    assert FILES < refused < 3 * FILES


def one_line(message: str) -> bool:
    return message.isprintable() and 20 < len(message) < 1500


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "must be a readable file (Is a directory)"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic"),
        (lambda path: path.write_bytes(b"seed: \xff"), "invalid start byte"),
        (lambda path: path.write_text(""), "must hold sections"),
        (lambda path: path.write_text("[" * 3000), "maximum recursion depth"),
        (lambda path: path.write_text("seed: 0b_"), "is not valid YAML"),
    ],
)
def test_what_is_no_parameter_file(
    make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "params.yaml"
    make(path)
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert message in str(caught.value)
    assert one_line(str(caught.value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 4294967296", "seed must be at most 4294967295"),
        ("ppo: [", "is not valid YAML"),
        ("- 1", "must hold sections"),
        ("sft: 3", "sft must be a section"),
        ("pppo: {}", "unknown parameter 'pppo'"),
        ("seed: !!int [1]", "expected a scalar node"),
        ("seed: 2001-01-01", "seed must be int; got datetime.date(2001"),
        ("seed: yes", "seed must be int; got True"),
        ("? [a]\n: 3", "found unhashable key"),
        ("seed:\t3", "found character '\\t' that cannot start any token"),
        ("ppo: {kl_coef: .nan}", "must be at least 0; got nan"),
        ("judge: {select: [[E], [W]]}", "must be a list of strings"),
        ("preset: [smoke]", "preset must be str"),
        ("judge: {select: [e1]}", "judge.select knows no 'e1'; it takes rule"),
        ("judge: {ignore: ['E1 ']}", "judge.ignore knows no 'E1 '"),
        ("judge: {plugins: ['']}", "judge.plugins knows no ''; it takes"),
        ("base: {model: a/b/c}", "it takes smollm2, tiny or OWNER/NAME on"),
        ("pretrain: {hidden: 96}", "unknown parameter 'pretrain'"),
        ("ppo: {updates: 1000000000000}", "at most 1000000; got 1000000000"),
        ("ppo: {batch_size: 1000000000}", "ppo.batch_size must be at most"),
        ("sft: {learning_rate: 1.5}", "sft.learning_rate must be at most 1"),
        ("ppo: {reward: {linter: 0}}", "some part a weight above 0"),
        ("ppo: {temperature: 1.0e-300}", "must be at least 0.01"),
        ("ppo: {kl_coef: -1}", "ppo.kl_coef must be at least 0"),
        ("sft: {base: ''}", "sft.base must be a name or a path"),
        ('sft: {base: "a\\0"}', "sft.base must be a name or a path"),
        ("ppo: {kl_coeff: 1}", "kl_coef, keep_length"),
    ],
)
def test_what_no_run_should_start_with(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert message in str(caught.value)
    assert one_line(str(caught.value))


def test_a_whole_section_does_not_reset_what_it_leaves_out() -> None:
    with pytest.raises(ConfigError, match="set one by one, as ppo.reward"):
        config.override(config.Params(), {"ppo": {"updates": 3}})


@pytest.mark.parametrize(
    "text", ["seed: 1\nseed: 2\n", "ppo: {updates: 1, updates: 1}\n"]
)
def test_a_key_stands_once(text: str) -> None:
    with pytest.raises(ConfigError, match="it is not valid YAML: .* twice"):
        config.read_yaml(text, "it")


def test_an_alias_that_repeats_a_value_is_taken() -> None:
    text = "a: &a [x, y]\nb: *a\nc: {<<: {d: 1}, e: 2}\n"
    found = {"a": ["x", "y"], "b": ["x", "y"], "c": {"d": 1, "e": 2}}
    assert config.read_yaml(text, "it") == found
