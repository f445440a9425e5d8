"""What is recorded of the machine."""

from importlib import metadata

from stylerl.pipeline import machine


def test_a_package_that_is_not_there_has_no_version(monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("torch", "no-such-package"))
    found = machine.describe()
    assert found["version.torch"] == metadata.version("torch")
    assert found["version.no-such-package"] == "none"


def test_a_processor_is_named_with_its_bf16_instructions(tmp_path):
    """Two processors of a name give other bits where one lacks bf16."""
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: AMD EPYC\nflags\t\t: fpu avx2\n")
    assert machine.cpu(info) == "AMD EPYC"
    info.write_text("model name\t: Xeon\nflags\t: amx_tile amx_bf16 avx2\n")
    assert machine.cpu(info) == "Xeon, amx_bf16"
