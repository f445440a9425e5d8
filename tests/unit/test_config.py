"""Parameters: every rule of the door, and params.yaml as its rendering."""

import dataclasses
from pathlib import Path

import pytest

from stylerl import config
from stylerl.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("ppo.kl_coeff", 0.1, "unknown parameter 'ppo.kl_coeff'"),
        ("nowhere.kl_coef", 0.1, "unknown parameter 'nowhere.kl_coef'"),
        ("ppo.kl_coef", -1, "ppo.kl_coef must be at least 0; got -1.0"),
        ("ppo.kl_coef", float("inf"), "ppo.kl_coef must be at most 1000000"),
        ("ppo.kl_coef", "1e-5x", "must be float; got '1e-5x'"),
        ("ppo.updates", "2.5", "must be int; got 2.5"),
        ("base.revision", 1234, "must be str; got 1234: quote it"),
        ("ppo.gae_lambda", 1.5, "ppo.gae_lambda must be at most 1; got 1.5"),
        ("ppo.learning_rate", 0, "must be above 0; got 0.0"),
        ("ppo.batch_size", 1.5, "ppo.batch_size must be int; got 1.5"),
        ("ppo.credit", "luck", "ppo.credit must be one of token, response"),
        ("ppo.reward", "linter", "ppo.reward must map names to numbers"),
        ("ppo.reward", {}, "must give some part a weight above 0; got {}"),
        ("ppo.reward", {"luck": 1}, "ppo.reward knows no 'luck'"),
        ("ppo.reward", {3: 1}, "ppo.reward knows no 3"),
        ("ppo.reward", {"mean of linter": 1}, "knows no 'mean of linter'"),
        ("ppo.reward", {"a.b": 1}, "ppo.reward knows no 'a.b'"),
        ("ppo.reward", {"linter": "x"}, "ppo.reward.linter must be float"),
        ("ppo.reward", {"linter": -1}, "linter must be at least 0; got -1.0"),
        ("judge.select", "E", "judge.select must be a list of strings"),
        ("judge.config", 3, "judge.config must be str or null; got 3"),
        ("base.model", "smolm2", "base.model knows no 'smolm2'; it takes"),
        (
            "base.model",
            "./mine",
            "'./mine'; it takes smollm2, tiny or OWNER/NAME",
        ),
        ("seed", True, "seed must be int; got True"),
        ("sft", 3, "sft is a section, and its values are set one by one"),
    ],
)
def test_a_broken_rule_is_named_with_its_key_and_value(key, value, message):
    with pytest.raises(ConfigError) as caught:
        config.override(config.Params(), {key: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: config.PPOConfig(learning_rate=-1), "above 0; got -1.0"),
        (lambda: config.PPOConfig(precision="x"), "one of auto, bf16, fp32"),
        (lambda: config.PPOConfig(updates=2.5), "ppo.updates must be int"),
        (lambda: config.PPOConfig(prompt_texts="e"), "list of strings"),
        (lambda: config.PPOConfig(reward={"x": 1}), "ppo.reward knows no 'x'"),
        (
            lambda: dataclasses.replace(config.PPOConfig(), gae_lambda=2),
            "ppo.gae_lambda must be at most 1; got 2.0",
        ),
        (
            lambda: config.SFTConfig(epochs=float("nan")),
            "at most 1000; got nan",
        ),
        (lambda: config.Params(seed=-1), "seed must be at least 0; got -1"),
    ],
)
def test_settings_made_in_code_are_checked_as_the_file_is(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_settings_made_in_code_have_the_declared_types():
    made = config.PPOConfig(
        kl_coef=1, prompt_texts=["a"], reward={"linter": 1}
    )
    assert type(made.kl_coef) is type(made.reward["linter"]) is float
    assert made.prompt_texts == ("a",)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("2e-05", 2e-5), ("1E-3", 1e-3), ("1.e-3", 1e-3), (".5e+0", 0.5)),
        *(("0.00002", 2e-5), ("1", 1.0), ("1.0e-3", 1e-3)),
    ],
)
def test_a_number_is_one_in_each_spelling(tmp_path, written, value):
    """DVC writes 2e-05, which YAML 1.1 takes for a text."""
    path = tmp_path / "params.yaml"
    path.write_text(f"ppo: {{learning_rate: {written}}}\n")
    assert config.load(path).ppo.learning_rate == value
    path.write_text(f"ppo: {{reward: {{linter: {written}}}}}\n")
    assert config.load(path).ppo.reward == {"linter": value}
    for twenty in ("2e1", "20.0", "2.0e+1"):
        path.write_text(f"ppo: {{updates: {twenty}}}\n")
        assert config.load(path).ppo.updates == 20
    path.write_text("ppo: {updates: 20.5}\n")
    with pytest.raises(ConfigError, match="must be int; got 20.5"):
        config.load(path)


def test_override_changes_one_value_and_keeps_the_rest():
    changed = config.override(config.Params(), {"ppo.kl_coef": 1, "seed": 3})
    assert changed.ppo.kl_coef == 1.0
    assert type(changed.ppo.kl_coef) is float
    assert changed == dataclasses.replace(
        config.Params(),
        seed=3,
        ppo=dataclasses.replace(config.Params().ppo, kl_coef=1.0),
    )


def test_rendered_params_read_back_equal(tmp_path):
    params = config.override(
        config.Params(),
        {
            "ppo.learning_rate": 1.41e-5,
            "ppo.prompt_texts": ["a: b\n", "#"],
            "ppo.reward": {
                "classifier": 0.5,
                "linter": 1,
                "package.rewards:short": 0.2,
            },
        },
    )
    path = tmp_path / "params.yaml"
    path.write_text(config.render(params))
    assert config.load(path) == params


def test_params_yaml_is_the_default_preset():
    assert (ROOT / "params.yaml").read_text() == config.render(config.Params())


@pytest.mark.parametrize("name", config.presets())
def test_every_preset_passes_the_door(name):
    assert config.from_preset(name).preset == name


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(ConfigError, match="default, gpu, notebook, smoke"):
        config.from_preset("huge")


def test_a_missing_file_says_how_to_write_one(tmp_path):
    with pytest.raises(ConfigError, match="stylerl params"):
        config.load(tmp_path / "params.yaml")


def test_what_a_section_does_not_say_is_the_pipelines_default(
    tmp_path: Path,
) -> None:
    """A file that gives some of a section has the pipeline's values for the
    rest, which for PPO are not the trainer's."""
    assert not config.PPOConfig().keep_length
    assert config.Params().ppo.keep_length
    path = tmp_path / "params.yaml"
    path.write_text("ppo: {updates: 3}\n")
    loaded = config.load(path).ppo
    assert (loaded.updates, loaded.keep_length) == (3, True)
    path.write_text("ppo: {keep_length: false}\n")
    assert not config.load(path).ppo.keep_length
    assert not config.from_preset("notebook").ppo.keep_length
    assert config.from_preset("gpu").ppo.keep_length
