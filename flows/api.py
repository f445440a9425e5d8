"""Where the Prefect API is, and whether it answers.

Nothing here imports Prefect, whose settings are read once on import: what
this module finds out decides what they will be.
"""

import os
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DEFAULT = "http://127.0.0.1:4200/api"


def url() -> str:
    """PREFECT_API_URL, or what pyproject.toml of this folder says."""
    if configured := os.environ.get("PREFECT_API_URL"):
        return configured
    file = Path("pyproject.toml")
    if not file.exists():
        return DEFAULT
    settings = tomllib.loads(file.read_text()).get("tool", {})
    api: dict[str, str] = settings.get("prefect", {}).get("api", {})
    return api.get("url", DEFAULT)


def address() -> tuple[str, int]:
    """Host and port of the API."""
    parts = urllib.parse.urlsplit(url())
    return parts.hostname or "127.0.0.1", parts.port or 4200


def answers() -> bool:
    """Whether a server is there and healthy."""
    try:
        with urllib.request.urlopen(f"{url()}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def use() -> None:
    """Use the server that answers, or one within this process.

    To be called before Prefect is imported.
    """
    if "PREFECT_API_URL" not in os.environ and not answers():
        os.environ["PREFECT_API_URL"] = ""
        os.environ.setdefault(
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120"
        )
