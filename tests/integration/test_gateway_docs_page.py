"""GET /docs shows the OpenAPI document with files of this server alone."""

from __future__ import annotations

import re
from pathlib import Path

from harness.gateway_stack import gateway_stack


async def test_the_page_asks_nobody_else(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path) as stack:
        page = await stack.client.get("/docs")
        assert page.status_code == 200
        assert "://" not in page.text
        files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(files) == 3
        for name in files:
            file = await stack.client.get(f"/{name}")
            assert file.status_code == 200 and len(file.content) > 1000
        assert (await stack.client.get("/openapi.json")).json()["info"]["title"] == "DSpark"
        assert (await stack.client.get("/docs/other.js")).status_code == 404
        assert (await stack.client.get("/docs/../pyproject.toml")).status_code == 404
