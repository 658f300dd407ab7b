"""GET /docs: the OpenAPI document as a page, with files of our own, so that it needs no network."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import FileResponse, Response

# It carries Swagger UI; nothing else of it is used.
_PACKAGE = "fastapi_offline"
_FILES = {
    "swagger_js_url": "swagger-ui-bundle.js",
    "swagger_css_url": "swagger-ui.css",
    "swagger_favicon_url": "favicon.png",
}


def add_documentation(app: FastAPI) -> None:
    """Adds the page and its files; without the package that has them a browser asks a CDN."""
    files = _files()
    # Relative, so that the page works behind a prefix too.
    urls: dict[str, Any] = {key: f"docs/{path.name}" for key, path in files.items()}
    page = get_swagger_ui_html(openapi_url="openapi.json", title=app.title, **urls)

    async def docs(request: Request) -> Response:
        return page

    _add(app, "/docs", docs)
    for path in files.values():
        _add(app, f"/docs/{path.name}", functools.partial(_file, path))


async def _file(path: Path, request: Request) -> Response:
    return FileResponse(path)


def _add(app: FastAPI, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
    app.add_route(path, endpoint, methods=["GET"], include_in_schema=False)


def _files() -> dict[str, Path]:
    """By what the page calls them; none without the package."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent / "static"
    return {key: folder / name for key, name in _FILES.items()}
