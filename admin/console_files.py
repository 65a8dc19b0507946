"""The web console's files, served from memory: a page of plain JavaScript modules that uses the admin API.

Nothing is loaded from other sites, and the page must not be embedded in another's frame: the Content-Security-Policy
forbids both.
"""

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).parent / "console"
INDEX = "index.html"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_console(app: web.Application) -> None:
    """Serve the console at `/`, its files below `/console/`."""
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            served = handler(path.read_bytes(), TYPES[path.suffix])
            app.router.add_get("/" if path.name == INDEX else f"/console/{path.name}", served)


def handler(content: bytes, media_type: str) -> Handler:
    """Return the handler of one file; a browser that has it only checks whether it is unchanged."""
    tag = hashlib.sha256(content).hexdigest()[:32]
    headers = {
        "ETag": f'"{tag}"',
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }

    async def serve(request: web.Request) -> web.StreamResponse:
        if any(known.value == tag for known in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=content, content_type=media_type, charset="utf-8", headers=headers)

    return serve
