"""The loaded kernels: typed calls over ctypes, and the team of threads that runs them."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from functools import cache

from dspark.verifier.native.build import build_library
from dspark.verifier.native.cpu_count import usable_cpus
from dspark.verifier.native.structs import (
    AttentionBatchStruct,
    AttentionParamsStruct,
    DecoderPassStruct,
    DecoderStruct,
    HeadShapeStruct,
    PackedLinearStruct,
)

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "dspark_isa": (c_char_p, []),
    "dspark_struct_sizes": (None, [POINTER(c_int64)]),
    "dspark_team_new": (c_void_p, [c_int32]),
    "dspark_team_delete": (None, [c_void_p]),
    "dspark_decoder_new": (c_void_p, [c_void_p]),
    "dspark_decoder_delete": (None, [c_void_p]),
    "dspark_decoder_forward": (
        None,
        [c_void_p, c_void_p, POINTER(DecoderStruct), POINTER(DecoderPassStruct)],
    ),
    "dspark_advise_huge_pages": (None, [c_void_p, c_int64]),
    "dspark_packed_bytes": (c_int64, [c_int32, c_int32, c_int32]),
    "dspark_pack": (None, [c_void_p, c_int32, c_int32, c_int32, c_void_p]),
    "dspark_pack_int8": (None, [c_void_p, c_void_p, c_int32, c_int32, c_void_p]),
    "dspark_pack_int4": (None, [c_void_p, c_void_p, c_void_p, c_int32, c_int32, c_void_p]),
    "dspark_unpack": (None, [POINTER(PackedLinearStruct), c_void_p, c_int32, c_void_p]),
    "dspark_linear": (
        None,
        [c_void_p, POINTER(PackedLinearStruct), c_void_p, c_int32, c_int32, c_void_p],
    ),
    "dspark_attention": (
        None,
        [
            c_void_p,
            POINTER(HeadShapeStruct),
            POINTER(AttentionParamsStruct),
            POINTER(AttentionBatchStruct),
            c_int32,
            *[c_void_p] * 6,
        ],
    ),
}


@cache
def load_library() -> ctypes.CDLL:
    """The kernels of this host, built when needed. Raises NativeUnavailable."""
    library = ctypes.CDLL(str(build_library()))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class Team:
    """Threads that the kernels run on; one call at a time."""

    def __init__(self, num_threads: int = 0) -> None:
        """``num_threads`` 0 means all processors that this process may use."""
        self.library = load_library()
        self.num_threads = num_threads or usable_cpus()
        self.handle: int = self.library.dspark_team_new(self.num_threads)

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle:
            self.library.dspark_team_delete(handle)


def instruction_set() -> str:
    """The vector instructions that the kernels were built for."""
    name: bytes = load_library().dspark_isa()
    return name.decode()
