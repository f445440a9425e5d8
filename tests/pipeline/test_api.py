"""A Prefect server for as long as a block runs, and no longer."""

from pathlib import Path

import pytest

from stylerl.pipeline import server as api


@pytest.mark.slow
def test_the_server_ends_with_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    own = f"http://127.0.0.1:{api.free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", own)
    with api.server():
        assert api.answers()
        with api.server():  # the same one, left running
            assert api.answers()
        assert api.answers()
    assert not api.answers()
