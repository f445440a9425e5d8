"""The page: inert, self-contained, the same bytes, honest words."""

import math
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from markupsafe import escape
from test_metrics import broken, row
from test_summary import NUMBERS, compliance, metrics

from stylerl.evaluation.measurement.metrics import tabulate_rules
from stylerl.judge.verdict import Violation
from stylerl.report import charts, plots
from stylerl.report import page as report
from stylerl.report import samples as shown
from tools import browser

EVIL = '</pre></script><script>alert(1)</script><img src=x onerror="f()">\x00'


class Page(HTMLParser):
    """Tags and attributes of a page; text by the tag around it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.words.append(data)


def evidence(**changes):
    """Six prompts; PPO breaks E225 on none of them, SFT on all."""
    completions = pd.DataFrame(
        [row("base", p) for p in "abcdef"]
        + [broken("sft", p, "E225") for p in "abcdef"]
        + [row("ppo", p) for p in "abcdef"]
    )
    defaults = {
        "metrics": metrics({"compliance": 0.62}, compliance(0.22, 0.17, 0.26)),
        "rules": tabulate_rules(completions, 200, seed=0),
        "completions": completions,
        "updates": pd.DataFrame({"update": [], "alarms": []}),
        "provenance": {"judge": "0123456789abcdef"},
        "seconds": {"sft": 41.3},
        "params": "seed: 0\n",
        "seed": 0,
    }
    return report.Evidence(**{**defaults, **changes})


def test_a_completion_with_markup_is_inert():
    completions = evidence().completions
    completions["completion"] = EVIL
    completions["prompt"] = EVIL + "\n"
    completions.at[6, "texts"] = [EVIL]
    completions.at[6, "codes"] = [EVIL]

    rules = tabulate_rules(completions, 200, seed=0)
    text = report.render(
        evidence(
            completions=completions,
            rules=rules,
            provenance={EVIL: EVIL},
            params=EVIL,
        )
    )
    page = Page(text)

    assert not {"script", "img", "iframe", "object"} & set(page.tags)
    assert not [a for _, a, _ in page.attributes if a.startswith("on")]
    assert any("<script>alert(1)</script>" in word for word in page.words)
    assert "\x00" not in text


def test_the_page_loads_nothing():
    page = Page(report.render(evidence()))

    assert "default-src 'none'" in str(page.attributes)
    loads = {"src", "srcset", "action", "background", "poster"}
    links = [value for _, name, value in page.attributes if name == "href"]
    assert not loads & {name for _, name, _ in page.attributes}
    assert links == ["data:,"]
    assert not re.search(r"url\((?!#)", report.render(evidence()))
    assert "@import" not in report.render(evidence())


def test_same_evidence_same_bytes():
    assert report.render(evidence()) == report.render(evidence())


def test_headline_and_guards_are_in_words():
    text = " ".join(Page(report.render(evidence())).words)

    assert "PPO cut non-compliance by 36.7 [" in text
    assert "Missed goals: non-compliance cut." in text
    assert re.search(r"non-compliance cut:\s+missed", text)
    assert re.search(r"parse rate:\s+held", text)
    assert "failed" not in text


def test_a_failed_guard_is_said():
    fallen = metrics({"kl": 20.0})

    text = " ".join(Page(report.render(evidence(metrics=fallen))).words)

    assert re.search(r"KL to SFT:\s+failed", text)
    assert "PPO did not change compliance measurably" in text


def test_alarms_are_marked_on_the_curves():
    updates = pd.DataFrame(
        {
            "update": [1, 2, 3],
            "objective/kl": [0.0, 11.0, 20.0],
            "alarms": [float("nan"), "KL explosion", "KL explosion; a < b"],
        }
    )

    text = report.render(evidence(updates=updates))

    assert "KL to SFT, nats a response" in text
    assert text.count("stroke: var(--bad)") == 2  # each at its first
    assert " Alarms: KL explosion, a &lt; b." in text  # in the first line
    assert "KL explosion: first at update 2, at 2 updates in all" in text
    assert "a &lt; b: first at update 3<" in text


@pytest.fixture
def drawn(monkeypatch):
    """What is given to the drawing of charts, in place of it."""
    given = []

    def keep(*figures, **more):
        given.append((*figures, more))
        return "a chart"

    for kind in ("line", "bars"):
        monkeypatch.setattr(plots, kind, keep)
    return given


def test_the_page_opens_with_what_complies_and_with_the_best_rival(drawn):
    """Of the best of n that chose on all prompts; none where the evaluation
    has no skill, and no bar of what was not measured."""
    numbers = metrics({"compliance": 0.62, "joint": 0.3})
    size = numbers["size"]["prompts"]
    for n, key, asked, share in (
        (2, "best_of_", size, 0.5),
        (2, "linter_best_of_", size, 0.7),
        (4, "linter_best_of_", size - 1, 0.9),
    ):
        numbers[f"{key}{n}"] = {"prompts": asked, "compliance": share}

    charts.draw_overview(numbers)
    del numbers["ppo"]["joint"]
    charts.draw_overview(numbers)

    (title, labels, series, _), (without, *_) = drawn
    assert labels == ["as written", "after the fixer", "right as well"]
    *_, rival, policy = series
    assert (policy.name, policy.ys) == ("PPO", [62, 50, 30])
    assert rival.name == "SFT, best of 2 by the linter"
    assert rival.ys[0] == 70 and math.isnan(rival.ys[2])
    names = [each.name for each in series]
    assert not [name for name in names if "4" in name or "class" in name]
    assert "right as well" in title and "right as well" not in without


def test_a_curve_has_the_updates_that_measured_it(drawn):
    updates = pd.DataFrame(
        {
            "update": [1, 2, 3],
            "judge/compliance": [0.5, None, 0.75],
            "judge/gap": [None] * 3,
            "alarms": [None] * 3,
        }
    )

    charts.draw_curves(updates)

    assert drawn == [
        ("compliance of the rollouts", [1, 3], [0.5, 0.75], [], {})
    ]


def test_no_alarm_is_said_too():
    updates = pd.DataFrame(
        {"update": [1], "objective/kl": [0.0], "alarms": [None]}
    )

    text = report.render(evidence(updates=updates))
    assert "no alarm was triggered" in text
    assert " Alarms: " not in text
    assert "Learning curves" in text


def test_worst_samples_are_those_that_lost_most():
    completions = evidence().completions
    ppo = completions["model"] == "ppo"
    # SFT scores 0.9 everywhere; PPO loses on c and most on e.
    completions.loc[ppo & (completions["prompt_id"] == "c"), "score"] = 0.5
    completions.loc[ppo & (completions["prompt_id"] == "e"), "score"] = 0.1

    assert shown.find_worst(completions) == [("e", 0), ("c", 0)]


def test_samples_are_drawn_by_the_seed_not_the_order_of_rows():
    completions = pd.concat(
        pd.DataFrame([row(model, f"{n:02}") for n in range(40)])
        for model in ("base", "sft", "ppo")
    )
    reverse = completions.iloc[::-1]

    drawn, again, other = (
        shown.draw_random(table, seed)
        for table, seed in (
            (completions, 1), (reverse, 1), (completions, 2)
        )
    )  # fmt: skip

    assert len(set(drawn)) == shown.RANDOM_SAMPLES
    assert drawn == again
    assert drawn != other


def test_samples_stand_under_what_they_are():
    """Thirty prompts, on five of which PPO breaks what SFT does not.

    The base was asked for the last 25 alone.
    """
    prompts = [f"{n:02}" for n in range(30)]
    completions = pd.DataFrame(
        [row("base", p) for p in prompts[5:]]
        + [row("sft", p) for p in prompts]
        + [
            broken("ppo", p, "W291") if p < "05" else row("ppo", p)
            for p in prompts
        ]
    )

    gallery = shown.choose(completions, seed=0)

    assert [len(samples) for samples in gallery.values()] == [20, 5]
    drawn, worst = gallery
    assert "at random" in drawn and "PPO lost most" in worst
    for sample in gallery[drawn]:
        assert [side.label for side in sample.sides] == ["base", "SFT", "PPO"]
    for sample in gallery[worst]:
        assert [side.label for side in sample.sides] == ["SFT", "PPO"]
        assert "W291" in sample.sides[1].messages[0]


def test_a_page_with_long_samples_of_many_rules_is_small():
    rules = [f"E{number}" for number in range(100, 160)]
    completions = pd.DataFrame(
        [
            broken(model, f"{n:03}", rules[n % 60])
            for model in ("base", "sft", "ppo")
            for n in range(240)
        ]
    )
    # The longest that the evaluation's 160 tokens write has some 800.
    completions["completion"] = "    value = '<some text>'\n" * 40
    rules = tabulate_rules(completions, 20, seed=0)

    page = report.render(evidence(completions=completions, rules=rules))

    assert len(page.encode()) < 3_000_000


@pytest.mark.slow
@pytest.mark.skipif(not browser.find(), reason="needs Chromium")
def test_a_browser_shows_it_as_narrow_as_a_phone(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report.render(evidence()))
    with browser.browsing(browser.find()) as tab:

        def ask(script):
            told = browser.tell(
                tab, "Runtime.evaluate", expression=script, returnByValue=True
            )
            return told["result"].get("value")

        browser.tell(
            tab, "Emulation.setDeviceMetricsOverride",
            width=390, height=844, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        browser.tell(tab, "Page.navigate", url=path.as_uri())
        while ask("document.readyState") != "complete":
            pass
        assert ask("document.documentElement.scrollWidth") <= 390
        assert ask("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize(
    ("violations", "cut"),
    [
        ([], [("x=1\n", None)]),
        (
            [Violation(2, 2, "E225", "w")],
            [("x", None), ("=", "E225 w"), ("1\n", None)],
        ),
        (  # at the end: an empty mark is kept
            [Violation(3, 1, "W391", "w")],
            [("x=1\n", None), ("", "W391 w")],
        ),
        (  # a syntax error charged in the prompt marks the first place
            [Violation(1, 1, "E999", "w")],
            [("", "E999 w"), ("x=1\n", None)],
        ),
    ],
)
def test_pieces_begin_behind_the_prompt(violations, cut):
    text = "def f():\nx=1\n"

    assert shown.pieces(text, len("def f():\n"), violations) == cut


def test_no_gain_is_shown_over_a_value_that_is_not():
    """A base that ends nothing has no compliance at SFT's lengths."""
    found = metrics({"compliance": 0.62}, compliance(0.22, 0.17, 0.26))
    key = "standardised_compliance"
    found["gain_sft"] = {key: 0.2, f"{key}_low": 0.1, f"{key}_high": 0.3}
    for ended, is_shown in ((0.4, False), (0.6, True)):
        found["base"] = found["base"] | {key: 0.5, "finished_rate": ended}
        (line,) = re.findall(
            r"<tr>.{0,9}<t[hd][^>]*>compliance %, SFT lengths.*?</tr>",
            report.render(evidence(metrics=found)),
            re.DOTALL,
        )
        assert ("+20.0 [+10.0, +30.0]" in line) == is_shown


def test_every_metric_of_the_table_is_shown():
    text = report.render(evidence())

    there = {m.key for m in report.display.TABLE if escape(m.label) in text}
    assert there == set(NUMBERS)
    # Where ruff judges, flake8 stands in its place.
    assert {m.key for m in report.display.TABLE} - there == {"flake8"}
