"""The reward as other trainers call it: texts, files, cut answers."""

import textwrap

import pytest
from conftest import write_params
from test_grader import HONEST, PROMPT

from stylerl import config
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError
from stylerl.lm.models import load_scorer
from stylerl.lm.saving import save_model
from stylerl.reward.other_trainers import TextReward

ONCE = HONEST.replace("result = 0", "result=0")  # E225
BROKEN = "    return (\n"
# Of the default weights: style of 2.5, which HONEST has in full, and 1 for
# its arguments, all of which are read; with one violation, half of 0.9 of the
# style; nothing for what is no Python.
WORTH = {HONEST: 3.5, ONCE: 2.5 * 0.45 + 1, BROKEN: 0.0}
# A row of 78 columns by itself, and of 82 in a class: E501, above 79.
LONG = f"    return prices[0] * rate  # {'x' * 47}\n"
FILE = textwrap.dedent("""\
    '''Prices.'''


    def total(prices, rate):
        return 0


    class Shop:
        def total(prices, rate):
            return 0
    """)
AT_MODULE, IN_CLASS = 4, 9
LINTER = config.override(Params(), {"ppo.reward": {"linter": 1.0}})


def alone(reward, completion, **columns):
    """What one completion is worth."""
    (found,) = reward(
        [PROMPT], [completion], **{k: [v] for k, v in columns.items()}
    )
    return found


@pytest.mark.parametrize("completion", WORTH)
def test_a_completion_is_worth_what_ppo_gives_it(completion):
    reward = TextReward(Params())
    assert alone(reward, completion) == pytest.approx(WORTH[completion])


def test_parameters_come_in_every_shape(tmp_path):
    params = write_params({"ppo.reward": {"linter": 1.0}}, tmp_path)
    file = tmp_path / "params.yaml"
    for given in (params, file, str(file)):
        assert alone(TextReward(given), ONCE) == pytest.approx(0.45)
    with pytest.raises(
        ConfigError, match="missing.yaml must be a readable file"
    ):
        TextReward("missing.yaml")


def test_a_completion_is_judged_in_the_file_of_its_row():
    """The same text, in one batch: by itself, and at the two places."""
    reward = TextReward(LINTER)
    found = reward(
        [PROMPT] * 4,
        [LONG] * 4,
        file_text=[FILE, None, FILE, "\ufeff" + FILE.replace("\n", "\r\n")],
        line=[IN_CLASS, None, AT_MODULE, IN_CLASS],
        solution=["of no interest"] * 4,
    )
    assert found == pytest.approx([0.45, 1.0, 1.0, 0.45])


def test_the_files_name_is_what_per_file_ignores_look_at(tmp_path):
    settings = tmp_path / "setup.cfg"
    settings.write_text("[flake8]\nper-file-ignores = shop.py:E501\n")
    changes = {"judge.config": str(settings)}
    reward = TextReward(config.override(LINTER, changes))
    for path, worth in (("shop.py", 1.0), ("other.py", 0.45), (None, 0.45)):
        found = alone(
            reward, LONG, file_text=FILE, line=IN_CLASS, file_path=path
        )
        assert found == pytest.approx(worth)


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        (FILE, 5, "row 5 of snippet.py"),  # the body's
        (FILE, 99, "row 99 of snippet.py"),
        (FILE.replace("prices", "prices, *more"), AT_MODULE, "first rows"),
        (FILE.replace("prices", "values"), AT_MODULE, "correct the columns"),
        ("def total(:\n", 1, "must parse"),
        ("x = '\0'\n", 1, "must parse"),
    ],
)
def test_a_column_that_is_wrong_is_named(file, line, words):
    with pytest.raises(DataError, match=words) as caught:
        alone(TextReward(LINTER), HONEST, file_text=file, line=line)
    assert "\n" not in str(caught.value)


def test_a_conversation_is_one_clear_error():
    said = [{"role": "user", "content": "def f():"}]
    with pytest.raises(DataError, match="must be texts.*; got a list"):
        TextReward(LINTER)([said], ["    return 1\n"])


def test_an_answer_that_was_cut_is_treated_as_in_ppo(tokenizer):
    """Eos ends the first; the second loses its last row, which no one
    finished, and pays the penalty; without a tokenizer both count whole."""
    cut, unfinished = HONEST, HONEST + "    retur"
    begin, end = tokenizer.bos_token, tokenizer.eos_token_id
    reward = TextReward(Params(), tokenizer)
    penalty = reward.params.ppo.missing_eos_penalty
    assert penalty > 0
    ids = [[7, end], [7, 8]]
    batch = ([begin + PROMPT] * 2, [cut, unfinished])
    assert reward(*batch, completion_ids=ids) == pytest.approx(
        [3.5, 3.5 - penalty]
    )
    whole, worse = TextReward(Params())(
        [PROMPT] * 2, batch[1], completion_ids=ids
    )
    assert whole == pytest.approx(3.5)
    assert worse != pytest.approx(3.5)
    # without a token no eos was sampled, and the answer is cut as well
    none, some = (
        reward([PROMPT], [""], completion_ids=[each]) for each in ([], [end])
    )
    assert none == pytest.approx([some[0] - penalty])


def test_a_reward_model_is_a_part(tokenizer, llama_folder, tmp_path):
    scorer = load_scorer(llama_folder, tokenizer, new_head=True)
    save_model(scorer, tokenizer, tmp_path / "pairwise")
    params = config.override(Params(), {"ppo.reward": {"pairwise": 1.0}})
    reward = TextReward(params, reward_models=tmp_path)
    found = reward([PROMPT] * 2, [HONEST, BROKEN])
    assert 0 < found[0] < 1 and found[1] == 0  # a sigmoid; no Python
