"""Whether a tracking store can be used, and what is said where not."""

import pytest

from stylerl.pipeline import reach, store


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://me:word@host:1/api", "http://host:1/api"),
        ("http://me:w@rd@host/api", "http://host/api"),
        ("http://me:w/rd@host/api", "http://host/api"),
        (
            "no answer of https://a:b@c/d, or of e",
            "no answer of https://c/d, or of e",
        ),
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
    ],
)
def test_no_password_is_shown(text: str, said: str) -> None:
    assert reach.shown(text) == said


def test_what_went_wrong_is_said_without_a_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def call() -> None:
        raise ValueError("request to http://me:word@host/api failed")

    assert not store.best_effort(call)
    assert capsys.readouterr().err == (
        "MLflow: not logged: request to http://host/api failed\n"
    )
