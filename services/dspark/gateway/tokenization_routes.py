"""POST /tokenize and /detokenize, in vLLM's shapes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.gateway.gateway import Gateway
from dspark.gateway.tokenization_types import parse_detokenize, parse_tokenize


class TokenizationRoutes:
    """What clients count and cut by."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def tokenize(self, request: Request) -> Response:
        body, prompt = await self._gateway.read_body(request, parse_tokenize)
        tokenized = await self._gateway.tokenization.tokenize(
            body.model,
            prompt,
            add_special_tokens=bool(body.add_special_tokens),
            return_token_strs=bool(body.return_token_strs),
        )
        return JSONResponse(
            {
                "count": len(tokenized.token_ids),
                "max_model_len": tokenized.max_model_len,
                "tokens": tokenized.token_ids,
                "token_strs": tokenized.token_strs,
            }
        )

    async def detokenize(self, request: Request) -> Response:
        body = await self._gateway.read_body(request, parse_detokenize)
        text = await self._gateway.tokenization.detokenize(body.model, body.tokens, "tokens")
        return JSONResponse({"prompt": text})
