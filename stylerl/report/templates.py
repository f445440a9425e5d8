"""Jinja templates: untrusted text is escaped, a missing value is an error."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def load(path: Path) -> Template:
    """The template of a file."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)
