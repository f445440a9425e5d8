"""The reward as other trainers call it: texts, talks, files, cut answers."""

import pickle
import textwrap

import pandas as pd
import pytest
from conftest import write_params
from test_grader import HONEST, PROMPT

import stylerl.reward
from stylerl import config
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError
from stylerl.lm.models import load_scorer
from stylerl.lm.saving import save_model
from stylerl.reward import trl_reward

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
LINTER = {"linter": 1.0}


def alone(reward, completion, **columns):
    """What one completion is worth."""
    (found,) = reward(
        [PROMPT], [completion], **{k: [v] for k, v in columns.items()}
    )
    return found


@pytest.mark.parametrize("completion", WORTH)
def test_a_completion_is_worth_what_ppo_gives_it(completion):
    reward = trl_reward()
    assert alone(reward, completion) == pytest.approx(WORTH[completion])


def test_parameters_come_in_every_shape(tmp_path):
    params = write_params({"ppo.reward": LINTER}, tmp_path)
    file = tmp_path / "params.yaml"
    for given in (LINTER, params, file, str(file)):
        assert alone(trl_reward(given), ONCE) == pytest.approx(0.45)
    with pytest.raises(
        ConfigError, match="missing.yaml must be a readable file"
    ):
        trl_reward("missing.yaml")
    with pytest.raises(ConfigError, match="liner"):
        trl_reward({"liner": 1.0})


def user(content):
    return [
        {"role": "system", "content": "You write Python."},
        {"role": "user", "content": content},
    ]


def answer(content):
    return [{"role": "assistant", "content": content}]


def fenced(code, closed="```\nDone."):
    return f"Here it is:\n\n```python\n{code}{closed}"


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        (user(PROMPT), answer(ONCE)),
        (user(PROMPT), answer(fenced(ONCE))),
        (user(PROMPT), answer(fenced(PROMPT + ONCE))),
        (user(PROMPT), answer(fenced(PROMPT + ONCE, closed=""))),  # cut
        (user(fenced(PROMPT)), answer(fenced(PROMPT + ONCE))),
        (user(fenced(PROMPT, "```")), answer(PROMPT + ONCE)),
        ([*user("Complete it."), *answer(PROMPT)], answer(ONCE)),  # begun
    ],
)
def test_a_conversation_is_judged_by_its_code(prompt, completion):
    (found,) = trl_reward(LINTER)([prompt], [completion])
    assert found == pytest.approx(0.45)


def test_an_answer_without_code_is_no_python():
    (found,) = trl_reward()([user(PROMPT)], [answer("I cannot do that.")])
    assert found == 0.0


def test_a_completion_is_judged_in_the_file_of_its_row():
    """The same text, in one batch: by itself, and at the two places."""
    reward = trl_reward(LINTER)
    found = reward(
        [PROMPT] * 4,
        [LONG] * 4,
        file_text=[FILE, None, FILE, FILE],
        line=[IN_CLASS, None, AT_MODULE, IN_CLASS],
        solution=["of no interest"] * 4,
    )
    assert found == pytest.approx([0.45, 1.0, 1.0, 0.45])


def test_the_columns_may_be_a_data_frames():
    """Which has NaN for None, and so 9.0 for 9."""
    frame = pd.DataFrame(
        {"file_text": [FILE, None, FILE], "line": [IN_CLASS, None, AT_MODULE]}
    )
    assert frame["line"].dtype == float
    columns = {name: frame[name] for name in frame}
    found = trl_reward(LINTER)([PROMPT] * 3, [LONG] * 3, **columns)
    assert found == pytest.approx([0.45, 1.0, 1.0])


def test_the_files_name_is_what_per_file_ignores_look_at(tmp_path):
    settings = tmp_path / "setup.cfg"
    settings.write_text("[flake8]\nper-file-ignores = shop.py:E501\n")
    changes = {"ppo.reward": LINTER, "judge.config": str(settings)}
    reward = trl_reward(config.override(Params(), changes))
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
        alone(trl_reward(LINTER), HONEST, file_text=file, line=line)
    assert "\n" not in str(caught.value)


def test_an_answer_that_was_cut_is_treated_as_in_ppo(tokenizer):
    """Eos ends the first; the second loses its last row, which no one
    finished, and pays the penalty; without a tokenizer both count whole."""
    cut, unfinished = HONEST, HONEST + "    retur"
    begin, end = tokenizer.bos_token, tokenizer.eos_token_id
    reward = trl_reward(tokenizer=tokenizer)
    penalty = reward.params.ppo.missing_eos_penalty
    assert penalty > 0
    ids = [[7, end], [7, 8]]
    batch = ([begin + PROMPT] * 2, [cut, unfinished])
    assert reward(*batch, completion_ids=ids) == pytest.approx(
        [3.5, 3.5 - penalty]
    )
    seen = {}
    reward(*batch, completion_ids=ids, log_metric=seen.__setitem__)
    assert seen["stylerl/compliance"] == 0.5  # what was cut complies not
    whole, worse = trl_reward()([PROMPT] * 2, batch[1], completion_ids=ids)
    assert whole == pytest.approx(3.5)
    assert worse != pytest.approx(3.5)
    # without a token no eos was sampled, and the answer is cut as well
    none, some = (
        reward([PROMPT], [""], completion_ids=[each]) for each in ([], [end])
    )
    assert none == pytest.approx([some[0] - penalty])


def test_each_part_is_logged():
    """ONCE complies not, so half of the two do; style (1 + 0.45) / 2."""
    seen = {}
    reward = trl_reward({"linter": 2.0})
    reward([PROMPT] * 2, [HONEST, ONCE], log_metric=seen.__setitem__)
    assert seen == pytest.approx(
        {"stylerl/style": 1.45, "stylerl/compliance": 0.5}
    )


def test_a_reward_model_is_a_part(tokenizer, llama_folder, tmp_path):
    scorer = load_scorer(llama_folder, tokenizer, new_head=True)
    save_model(scorer, tokenizer, tmp_path / "scorer")
    reward = trl_reward({f"{tmp_path}/scorer": 1.0})
    found = reward([PROMPT] * 2, [HONEST, BROKEN])
    assert 0 < found[0] < 1 and found[1] == 0  # a sigmoid; no Python


def test_it_goes_to_another_process_and_back(tokenizer):
    reward = trl_reward(tokenizer=tokenizer)
    alone(reward, HONEST, file_text=FILE, line=IN_CLASS)  # it has workers
    again = pickle.loads(pickle.dumps(reward))
    assert again == reward
    assert again.__name__ == "stylerl"
    assert alone(again, ONCE) == pytest.approx(WORTH[ONCE])


def test_the_package_offers_nothing_else():
    assert stylerl.reward.__all__ == ["trl_reward"]
    with pytest.raises(AttributeError, match="no attribute 'grpo_reward'"):
        _ = stylerl.reward.grpo_reward
