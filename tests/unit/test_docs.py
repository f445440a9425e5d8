"""The documentation names what exists, and defines what is logged, once."""

import doctest
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from conftest import build_trainer, grader

from stylerl import config
from stylerl.cli.commands import parser
from stylerl.evaluation.display import TABLE
from stylerl.judge import Judge
from stylerl.ppo import health
from stylerl.reward.grade import grade, monitored
from tools import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
    if DOCS / "reference" not in path.parents  # generated
)
LOGGED = (DOCS / "ppo-log.md").read_text()
ROOMS = sorted(path.parent.name for path in ROOT.glob("stylerl/*/__init__.py"))
CODE = re.compile(
    r"(?<![\w/.-])(?:stylerl|tasks|flows|tests|tools|benchmarks|examples)"
    r"/[\w/]+\.(?:py|md|yaml|j2)\b"
)
SETTING = re.compile(
    r"(?:`|--set \"?|--grid \"?)"
    r"(judge|filter|label|base|sft|reward|ppo|evaluate)\.([a-z_]+)[`:=]"
)
FILES = {"json", "csv", "md", "py"}  # ppo.csv is no setting


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def first_cells(text: str) -> list[str]:
    """The first cell of each row of each table."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = set(CODE.findall(page.read_text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_parameter_that_is_named_exists(page: Path) -> None:
    params = config.to_dict(config.from_preset("default"))
    named = set(SETTING.findall(page.read_text()))
    unknown = [
        f"{section}.{key}"
        for section, key in sorted(named)
        if key not in FILES and key not in params[section]
    ]
    assert unknown == []


def test_the_reference_has_every_command_parameter_and_alarm() -> None:
    commands = "\n".join(reference.commands())
    top = parser().format_help()
    for name in re.findall(r"^    (\w+)  ", top, re.MULTILINE):
        assert f"## stylerl {name}\n" in commands
    parameters = "\n".join(reference.parameters())
    params = config.to_dict(config.from_preset("default"))
    for section, values in params.items():
        if isinstance(values, dict):
            for key in values:
                assert f"`{section}.{key}`" in parameters
    alarms = "\n".join(reference.alarms())
    for advice in health.ADVICE.values():
        assert advice.remedy in alarms


def test_every_test_that_is_named_exists() -> None:
    text = LOGGED + (DOCS / "ppo.md").read_text()
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"\btest_\w+\.py", text))
    assert len(named) > 8
    assert named - set(files) == set()
    functions = set(re.findall(r"`(test_\w+)`", text))
    source = "".join(path.read_text() for path in files.values())
    assert [f for f in functions if f"def {f}(" not in source] == []


def test_the_library_page_says_what_python_says() -> None:
    text = (DOCS / "howto/library.md").read_text()
    blocks = re.findall(r"```python\n(>>> .*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        example = doctest.DocTestParser().get_doctest(
            block, {}, "library.md", None, 0
        )
        assert doctest.DocTestRunner().run(example).failed == 0


def test_every_statistic_of_ppo_is_defined_once(judge: Judge) -> None:
    trainer = build_trainer(
        grader(
            lambda p, texts: {"style": [float(len(t)) for t in texts]},
            lambda *batch: monitored(grade(judge, *batch)),
        ),
        ["x"],
        updates=1,
        batch_size=4,
        update_epochs=2,
        max_new_tokens=4,
        learning_rate=0.1,
        lora_rank=16,
    )
    (step,) = trainer
    assert {"policy/steps", "judge/gap"} <= set(step.metrics)
    cells = first_cells(LOGGED)
    defined = Counter(
        name for cell in cells for name in re.findall("`(.*?)`", cell)
    )
    for key in step.metrics:
        name = "score/PART" if key.startswith("score/") else key
        assert defined[name] == 1, name
    for phase in step.seconds:
        assert f"`{phase}`" in LOGGED


def test_every_alarm_is_listed_once() -> None:
    cells = Counter(first_cells(LOGGED))
    for name in health.ADVICE:
        assert cells[name] == 1


def test_every_parameter_that_a_remedy_names_exists() -> None:
    params = config.to_dict(config.from_preset("default"))
    for name, advice in health.ADVICE.items():
        for key in re.findall(r"\bppo\.([a-z_]+)", advice.remedy):
            assert key in params["ppo"], name


def test_every_metric_of_the_table_is_defined_once() -> None:
    cells = first_cells((DOCS / "metrics.md").read_text())
    defined = Counter(
        name for cell in cells for name in re.findall("`(.*?)`", cell)
    )
    for metric in TABLE:
        assert defined[metric.key] == 1, metric.key


def test_the_glossary_stays_short() -> None:
    text = (DOCS / "glossary.md").read_text()
    assert len(re.findall(r"^:   ", text, re.MULTILINE)) <= 40


def test_the_index_of_decisions_has_them_all_in_order() -> None:
    folder = DOCS / "decisions"
    listed = re.findall(
        r"\((\d{4}-[\w-]+\.md)\)", (folder / "index.md").read_text()
    )
    assert listed == sorted(path.name for path in folder.glob("0*.md"))
    for name in listed:
        first = (folder / name).read_text().splitlines()[0]
        assert first.startswith(f"# {int(name[:4])}. ")


def test_the_site_has_a_page_for_each_room() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert re.findall(r"reference/api/(\w+)\.md", text) == ROOMS
    concepts = (DOCS / "concepts.md").read_text()
    assert [
        room for room in ROOMS if f"`stylerl/{room}`" not in concepts
    ] == []


def test_the_tools_of_the_site_stay_out_of_the_lock() -> None:
    """The corpus is collected from what requirements.lock pins."""
    lock = (ROOT / "requirements.lock").read_text()
    assert "mkdocs" not in lock
    pinned = (DOCS / "requirements.txt").read_text().splitlines()
    assert all(re.match(r"#|[\w.-]+==\S+$", line) for line in pinned)


def test_the_navigation_is_yaml_and_its_pages_exist() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    pages = re.findall(r"[\w/-]+\.md$", text, re.MULTILINE)
    assert yaml.safe_load(text)["site_name"] == "stylerl"
    written = [page for page in pages if not page.startswith("reference/")]
    assert [page for page in written if not (DOCS / page).exists()] == []
