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
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from stylerl.pipeline import process

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
REFUSAL = (
    b"a request must come from this server's own pages, or from a program: "
    b"its Host must be this server, and its Origin, if any, as well\n"
)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class OwnPages:
    """An ASGI application that refuses what foreign pages ask for."""

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}".encode() for name in LOOPBACK}

    async def __call__(
        self, scope: Message, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] == "lifespan" or self._is_own(scope["headers"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            kind = [(b"content-type", b"text/plain")]
            start = {"status": 403, "headers": kind}
            await send({"type": "http.response.start", **start})
            await send({"type": "http.response.body", "body": REFUSAL})

    def _is_own(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        given = dict(headers)
        origin = given.get(b"origin")
        return given.get(b"host") in self.hosts and (
            origin is None or origin.removeprefix(b"http://") in self.hosts
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
