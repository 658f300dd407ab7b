"""The garbage collector of a process that is going to serve for long."""

from __future__ import annotations

import gc


def keep_what_is_there() -> None:
    """What starting made stays for good: call it when all is ready.

    A full collection then walks only what came since. So it takes little of a step's time, and as
    it is due when a share of what it walks is new, it comes before much garbage has gathered.
    """
    gc.collect()
    gc.freeze()
