"""The frontier of a sweep, on points few enough to draw."""

import pytest
from test_summary import compliance, metrics

from stylerl import storage
from stylerl.errors import ConfigError
from stylerl.evaluation import frontier
from stylerl.evaluation.frontier import Point
from stylerl.pipeline import preflight
from stylerl.report import sweep as report


def point(name, kl, compliance):
    gain = (0.01, 0.02, 0.03)
    return Point({"ppo.kl_coef": name}, kl, compliance, *gain, ["statements"])


@pytest.mark.parametrize(
    ("points", "kept"),
    [
        ([], ""),
        ([("a", 1, 0.5)], "a"),
        # b has more compliance for more KL; c has less of it for more still
        ([("a", 1, 0.5), ("b", 2, 0.7), ("c", 3, 0.6)], "ab"),
        # the same KL: the better one; the same compliance: the nearer one
        ([("a", 1, 0.5), ("b", 1, 0.6)], "b"),
        ([("a", 2, 0.5), ("b", 1, 0.5)], "b"),
        # equals do not beat each other
        ([("a", 1, 0.5), ("b", 1, 0.5), ("c", 0, 0.4)], "abc"),
    ],
)
def test_no_other_point_beats_one_of_the_frontier(points, kept):
    found = frontier.frontier([point(*each) for each in points])
    assert [each.setting["ppo.kl_coef"] for each in found] == list(kept)


def test_a_point_is_read_off_an_evaluation():
    """20 nats are more than the report's guard allows."""
    after = {"kl": 20.0, "compliance": 0.8}
    numbers = metrics(after, compliance(0.2, 0.1, 0.3))
    found = frontier.point_of({"ppo.kl_coef": 0.05, "seed": 1}, numbers)
    assert found[1:] == (20.0, 0.8, 0.1, 0.2, 0.3, ["KL to SFT"])
    assert found.name == "kl_coef 0.05, seed 1"


def test_the_table_rises_with_kl_and_marks_the_frontier():
    text = report.markdown([point("b", 2, 0.4), point("a", 1, 0.5)])
    rows = text.splitlines()[2:4]
    assert rows == [
        "| **kl_coef a** | 1.00 | 50.0 | +2.0 [+1.0, +3.0] | statements |",
        "| kl_coef b | 2.00 | 40.0 | +2.0 [+1.0, +3.0] | statements |",
    ]


def test_the_section_draws_every_point_and_joins_the_frontier():
    # by KL: 1 and 3 stand on the frontier, 2 is beaten by 1
    points = [point("a", 1, 0.5), point("<b>", 2, 0.4), point("c", 3, 0.7)]
    page = report.section(points, "2026-11-22", "On <2>.", "j" * 64)
    assert page.count('class="dot ppo"') == 2
    assert page.count('class="dot sft"') == 1
    assert page.count('class="line ppo"') == 1
    assert "<td>2</td><td>kl_coef &lt;b&gt;</td><td>2.00</td>" in page
    assert "http" not in page
    assert f"2026-11-22, judge {'j' * 12}. On &lt;2&gt;. One dot" in page


def test_the_last_sweep_stands_in_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage.write_text(report.REPORT, f"<p>KL</p>{report.PLACE}<p>end</p>")
    assert report.write_page() == report.REPORT
    points = [point("a", 1, 0.5), point("b", 2, 0.7)]
    report.keep_sweep(points, "100 prompts.", "j1")
    text = report.write_page().read_text()
    assert text.startswith("<p>KL</p><h3>The last sweep</h3>")
    assert "judge j1. 100 prompts. One dot" in text
    assert "kl_coef b" in text and text.endswith("<p>end</p>")
    again = "<p>later</p>"  # an evaluation that knows no place for a sweep
    storage.write_text(report.REPORT, again)
    assert report.write_page().read_text() == again


def test_a_grid_is_every_combination():
    assert preflight.combinations({"a": [1, 2], "b": [3, 4]}) == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 4},
        {"a": 2, "b": 3},
        {"a": 2, "b": 4},
    ]


@pytest.mark.parametrize("values", [[], 0.1, "ab"])
def test_a_grid_without_values_is_refused(values):
    with pytest.raises(ConfigError, match="needs a list of values"):
        preflight.combinations({"ppo.kl_coef": values})
