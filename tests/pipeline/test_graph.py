"""The graph of dvc.yaml: order, and what changes a stage's key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stylerl.errors import ConfigError
from stylerl.pipeline import graph

DVC_YAML = """
stages:
  base:
    cmd: python -m tasks.base
    params: [seed]
    outs:
      - artifacts/base:
          push: false
  sft:
    cmd: python -m tasks.sft
    deps: [data, "${sft.base}"]
    params: [sft, seed]
    outs: [artifacts/sft]
    metrics:
      - metrics/sft.json:
          cache: false
  ppo:
    cmd: python -m tasks.ppo
    deps: [artifacts/sft/model, ppo.py, "${ppo.code}"]
    params: [ppo.kl_coef]
    outs: [artifacts/ppo]
"""
LOCK = """
schema: '2.0'
stages:
  base:
    cmd: python -m tasks.base
    outs: [{path: artifacts/base, md5: bb.dir}]
  sft:
    cmd: python -m tasks.sft
    outs: [{path: artifacts/sft, md5: ff.dir}]
"""
DATA = "outs: [{path: data, md5: dd.dir}]"
PARAMS = (
    "seed: 0\nsft: {rate: 0.1, base: artifacts/base}\n"
    "ppo: {kl_coef: 0.05, clip_coef: 0.2, code: a.py}\n"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, in which the test works."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "dvc.yaml": DVC_YAML,
        "dvc.lock": LOCK,
        "data.dvc": DATA,
        "params.yaml": PARAMS,
        "ppo.py": "x = 1\n",
        "a.py": "a = 1\n",
        "b.py": "b = 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of one file of the workspace."""

    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return change


def test_what_a_stage_declares(root: Path) -> None:
    sft = graph.find_stage("sft")
    assert sft.outs == ("artifacts/sft", "metrics/sft.json")
    assert sft.params == ("sft", "seed")
    assert sft.deps == ("data", "artifacts/base")  # as params.yaml names it


def test_inputs_have_the_digests_that_dvc_gave_them(root: Path) -> None:
    sft, ppo = graph.find_stage("sft"), graph.find_stage("ppo")
    assert graph.inputs(sft) == {
        "data": "dd.dir",
        "artifacts/base": "bb.dir",
    }
    digests = graph.inputs(ppo)
    assert digests["artifacts/sft/model"] == "ff.dir"
    # printf 'x = 1\n' | sha256sum
    assert digests["ppo.py"] == (
        "9e26bf369911c45c243c684147b23fc9e1dcfcf257d299a1c632016a6fcd33f4"
    )
    # data is what DVC tracks; code is not
    assert graph.datasets(ppo) == {"artifacts/sft/model": "ff.dir"}
    (root / "ppo.py").unlink()
    assert graph.inputs(ppo)["ppo.py"] is None


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (replace("params.yaml", "0.05", "0.06"), {"ppo"}),
        (replace("params.yaml", "clip_coef: 0.2", "clip_coef: 0.3"), set()),
        (replace("params.yaml", "rate: 0.1", "rate: 0.2"), {"sft"}),
        (replace("params.yaml", "seed: 0", "seed: 1"), {"base", "sft"}),
        (replace("ppo.py", "1", "2"), {"ppo"}),
        (replace("a.py", "1", "2"), {"ppo"}),  # named in params.yaml
        (replace("b.py", "1", "2"), set()),
        (replace("params.yaml", "a.py", "b.py"), {"ppo"}),
        (replace("data.dvc", "dd", "de"), {"sft"}),
        (replace("dvc.lock", "bb", "bc"), {"sft"}),
        (replace("dvc.lock", "ff", "fe"), {"ppo"}),
        (replace("dvc.yaml", "tasks.ppo", "tasks.ppo -v"), {"ppo"}),
    ],
)
def test_the_key_changes_with_what_a_stage_uses(
    root: Path, change: Callable[[Path], None], changed: set[str]
) -> None:
    def keys() -> dict[str, str]:
        return {s.name: graph.stage_key(s) for s in graph.load_stages()}

    before = keys()
    assert len(set(before.values())) == 3
    assert keys() == before
    change(root)
    after = keys()
    assert {name for name in after if after[name] != before[name]} == changed


def test_a_folder_is_digested_as_dvc_sees_it(root: Path) -> None:
    replace("dvc.yaml", "ppo.py", "code")(root)
    ppo = graph.find_stage("ppo")
    assert graph.inputs(ppo)["code"] is None
    (root / "code/rules").mkdir(parents=True)
    (root / "code/a.py").write_text("a = 1\n")
    (root / "code/rules/b.py").write_text("b = 1\n")
    before = graph.stage_key(ppo)

    # what Python leaves beside the code changes nothing
    (root / "code/__pycache__").mkdir()
    (root / "code/__pycache__/a.cpython-311.pyc").write_bytes(b"1")
    (root / "code/__pycache__/a.txt").write_text("1")
    (root / "code/empty").mkdir()
    assert graph.stage_key(ppo) == before

    keys = [before]
    (root / "code/rules/b.py").write_text("b = 2\n")
    keys.append(graph.stage_key(ppo))
    (root / "code/rules/b.py").rename(root / "code/rules/c.py")
    keys.append(graph.stage_key(ppo))
    (root / "code/d.py").touch()
    keys.append(graph.stage_key(ppo))
    assert len(set(keys)) == 4


def test_a_base_of_ones_own_is_in_the_key(root: Path) -> None:
    """A folder that params.yaml names: its bytes, and no stage for it."""
    for written in ("artifacts/base", "./artifacts/base"):
        replace("params.yaml", "artifacts/base", written)(root)
        assert [s.name for s in graph.connected_stages()] == [
            "base", "sft", "ppo",
        ]  # fmt: skip
    replace("params.yaml", "./artifacts/base", "models/mine")(root)
    assert [s.name for s in graph.connected_stages()] == ["sft", "ppo"]

    def key() -> str:
        return graph.stage_key(graph.find_stage("sft"))

    keys = [key()]
    weights = root / "models/mine/model.safetensors"
    weights.parent.mkdir(parents=True)
    for content in (b"weights", b"weighty"):
        weights.write_bytes(content)
        keys.append(key())
    assert len(set(keys)) == 3
    weights.write_bytes(b"weights")
    assert key() == keys[1]


def test_before_the_first_run(root: Path) -> None:
    (root / "dvc.lock").unlink()
    assert graph.outputs("sft") == {}
    assert len(graph.stage_key(graph.find_stage("sft"))) == 64


def test_errors_name_the_remedy(root: Path) -> None:
    (root / "dvc.yaml").unlink()
    with pytest.raises(ConfigError, match="root of a stylerl checkout"):
        graph.load_stages()
