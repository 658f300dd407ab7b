"""``python -m dspark.gateway``"""

from __future__ import annotations

import sys

import uvloop

from dspark.config import bad_settings_end, parse
from dspark.gateway.config import GatewayConfig
from dspark.gateway.server import AddressError, serve
from dspark.telemetry.process import telemetry

BAD_SETTING = 2


def main() -> int:
    config = parse(GatewayConfig, "DSpark gateway: OpenAI HTTP and gRPC in front of a scheduler")
    try:
        with bad_settings_end("gateway"), telemetry("gateway", config):
            uvloop.run(serve(config))
    except (AddressError, ValueError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return BAD_SETTING
    return 0


if __name__ == "__main__":
    sys.exit(main())
