"""docs/ppo.md: every statistic defined once, every alarm, every link."""

import re
from collections import Counter
from pathlib import Path

from conftest import build_llama, build_tokenizer

from stylerl.config import JudgeConfig
from stylerl.judge import Judge
from stylerl.ppo import PPOConfig, PPOTrainer, health
from stylerl.reward.composite import Watch

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
TEXT = (DOCS / "ppo.md").read_text()


def first_cells():
    """The first cell of each row of each table."""
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows]


def test_every_statistic_is_defined_once():
    tokenizer = build_tokenizer()
    config = PPOConfig(
        updates=1,
        batch_size=4,
        epochs=2,
        max_new_tokens=4,
        entropy_coef=0.0,
        ratio_guard=1.0001,
        precision="fp32",
        learning_rate=0.1,
        warmup=0.0,
        checkpoint_every=0,
        keep="best",
    )
    trainer = PPOTrainer(
        config,
        policy=build_llama(len(tokenizer)),
        tokenizer=tokenizer,
        reward=lambda p, texts: {"style": [float(len(t)) for t in texts]},
        prompts=["x"],
        observe=Watch(Judge(JudgeConfig())),
        validation=["y"],
    )
    (step,) = trainer
    assert {"policy/skipped", "validation/kl", "judge/gap"} <= set(
        step.statistics
    )
    defined = Counter(
        name for cell in first_cells() for name in re.findall("`(.*?)`", cell)
    )
    for key in step.statistics:
        name = "score/PART" if key.startswith("score/") else key
        assert defined[name] == 1, name
    for phase in step.seconds:
        assert f"`{phase}`" in TEXT


def test_every_alarm_is_listed_once():
    cells = Counter(first_cells())
    for rule in health._RULES:
        assert cells[rule.name] == 1


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) > 20
    missing = [
        link
        for link in links
        if "://" not in link and not (DOCS / link).exists()
    ]
    assert missing == []


def test_every_test_that_is_named_exists():
    named = set(re.findall(r"\btest_\w+\.py", TEXT))
    assert len(named) > 8
    folder = Path(__file__).parent.parent
    assert [name for name in named if not list(folder.rglob(name))] == []
    functions = set(re.findall(r"`(test_\w+)`", TEXT))
    source = "".join(p.read_text() for p in folder.rglob("test_*.py"))
    assert [f for f in functions if f"def {f}(" not in source] == []
