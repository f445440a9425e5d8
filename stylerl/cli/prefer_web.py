"""`stylerl prefer --web`: the same question, in a browser on this machine.

One page holds the prompt, A and B and a form; a script of a few lines lets
keys stand for its buttons.  Answers go where the terminal's go.  A page from
elsewhere can neither read nor answer: the host must be this machine's name
for itself, and every answer bears a token that only this page knows.
"""

import contextlib
import secrets
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from stylerl.errors import DiskError
from stylerl.report import markup, templates
from stylerl.reward_models import preferences
from stylerl.reward_models.preferences import CONFIDENCE, Answer, Choice, Pair

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"
TEMPLATE = Path(__file__).with_name("prefer.html.j2")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'nonce-{nonce}'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'"
)


class Session:
    """The pairs that wait for a person, and what they have said so far."""

    def __init__(
        self, pairs: Sequence[Pair], annotator: str, seed: int, path: Path
    ) -> None:
        """Ask `annotator` about `pairs` in order; answers go to `path`."""
        self.waiting = deque(pairs)
        self.annotator, self.seed, self.path = annotator, seed, path
        self.total, self.given = len(pairs), 0

    def sides(self) -> list[str]:
        """What stands as A and as B of the first pair that waits."""
        _, *texts = self.waiting[0]
        return texts[::-1] if self._swapped() else texts

    def answer(self, side: str, sure: str) -> None:
        """Save what was said of the first pair.

        Args:
            side: what was better, as it was shown: a Choice.
            sure: a key of CONFIDENCE.

        Raises:
            DiskError: the answer could not be written.
        """
        if self._swapped():
            side = {"a": "b", "b": "a"}.get(side, side)
        pair = self.waiting[0]
        answer = Answer(self.annotator, pair, Choice(side), int(sure))
        preferences.append(self.path, answer)
        self.waiting.popleft()
        self.given += 1

    def _swapped(self) -> bool:
        pair = self.waiting[0]
        return preferences.is_swapped(pair, self.annotator, self.seed)


def build_app(session: Session) -> "Starlette":
    """The application: GET shows the question, POST takes its answer."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import (
        HTMLResponse,
        PlainTextResponse,
        RedirectResponse,
        Response,
    )
    from starlette.routing import Route

    token = secrets.token_urlsafe(16)

    async def ask(request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        headers = {
            "Content-Security-Policy": POLICY.format(nonce=nonce),
            "Cache-Control": "no-store",
        }
        return HTMLResponse(render(session, token, nonce), headers=headers)

    async def take(request: Request) -> Response:
        body = await request.body()
        given = dict(parse_qsl(body.decode(errors="replace")))
        if not secrets.compare_digest(
            given.get("token", "").encode(), token.encode()
        ):
            return PlainTextResponse("reload the page, and answer again", 403)
        # A form sent twice, or from an older tab, is of another pair.
        if session.waiting and given.get("pair") == session.waiting[0].id:
            side, sure = given.get("choice", ""), given.get("sure", "")
            if side not in list(Choice) or sure not in map(str, CONFIDENCE):
                return PlainTextResponse("no such answer", 400)
            try:
                session.answer(side, sure)
            except DiskError as error:
                return PlainTextResponse(str(error), 507)
        return RedirectResponse("/", 303)

    return Starlette(
        routes=[Route("/", ask), Route("/", take, methods=["POST"])],
        middleware=[
            Middleware(
                TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]
            )
        ],
    )


def render(session: Session, token: str, nonce: str) -> str:
    """The page: a question, or that none is left."""
    pair, texts = None, []
    if session.waiting:
        pair = session.waiting[0]
        texts = [pair.prompt, *session.sides()]
    return templates.load(TEMPLATE).render(
        pair=pair,
        texts=[markup.visible(text.removeprefix("\n")) for text in texts],
        session=session,
        token=token,
        nonce=nonce,
        confidence=CONFIDENCE,
    )


def serve(session: Session) -> None:
    """Serve until Ctrl-C, on a free port, whose address is printed first."""
    import socket

    import uvicorn

    config = uvicorn.Config(build_app(session), log_level="warning")
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        print(f"http://{HOST}:{port}  (Ctrl-C ends)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listener])
