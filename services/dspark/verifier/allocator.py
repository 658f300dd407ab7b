"""Keeps freed memory in the process, so that arrays of a logits row's size cost no page faults."""

from __future__ import annotations

import ctypes

# Numbers of glibc's mallopt; the largest threshold it accepts for a separate mapping is 32 MiB.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MMAP_BYTES = 32 * 1024 * 1024
_TRIM_BYTES = 128 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Tell glibc to serve arrays up to 32 MiB from its heap; False where there is no glibc.

    Called once the model is loaded: what loading left free goes back to the system first.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    library.malloc_trim(0)
    has_mapping_limit = library.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
    has_trim_limit = library.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
    return bool(has_mapping_limit and has_trim_limit)
