"""``python -m harness.span_printer``: an OTLP receiver that prints each span as a line of JSON."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from harness.otlp_receiver import otlp_receiver

GRPC_PORT = 4317


def main() -> None:
    printed = 0
    with otlp_receiver("0.0.0.0", GRPC_PORT) as receiver:
        while True:
            for span in receiver.spans[printed:]:
                print(json.dumps(asdict(span)), flush=True)
                printed += 1
            time.sleep(0.1)


if __name__ == "__main__":
    main()
