"""What is recorded of the machine."""

from importlib import metadata

from stylerl.pipeline import machine


def test_a_package_that_is_not_there_has_no_version(monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("torch", "no-such-package"))
    found = machine.describe()
    assert found["version.torch"] == metadata.version("torch")
    assert found["version.no-such-package"] == "none"
