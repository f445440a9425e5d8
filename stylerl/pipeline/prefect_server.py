"""A Prefect server for this checkout, which no foreign web page can use.

`python -m stylerl.pipeline.prefect_server HOST PORT [--ephemeral]` serves
until it is told to end, or until the process that started it is gone.

Whoever may start a run may run code (a reward is a `module:function`), and a
browser sends what any page asks it to.  So a request must name this server
as its host, which a rebound domain name does not, and one that comes from a
page must come from a page of this server.  Prefect itself checks neither.
"""

import signal
import sys

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stylerl.pipeline import process

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
REFUSAL = PlainTextResponse(
    "a request must come from this server's own pages, or from a program: "
    "its Host must be this server, and its Origin, if any, as well\n",
    status_code=403,
)


class OwnPages:
    """An ASGI application that refuses what foreign pages ask for."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in LOOPBACK}

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] == "lifespan" or self._is_own(Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await REFUSAL(scope, receive, send)

    def _is_own(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        return headers.get("host") in self.hosts and (
            origin is None or origin.removeprefix("http://") in self.hosts
        )


def main(host: str, port: int, ephemeral: bool) -> None:
    """Serve Prefect's API, and its pages unless it is ephemeral."""
    process.die_with_parent(signal.SIGTERM)
    with process.importing():
        import uvicorn
        from prefect.server.api.server import create_app

        app = OwnPages(create_app(ephemeral=ephemeral, final=True), port)
    uvicorn.run(app, host=host, port=port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), "--ephemeral" in sys.argv)
