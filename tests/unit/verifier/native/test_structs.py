"""The ctypes structs have the layout that the kernels were compiled with."""

from __future__ import annotations

import ctypes

from dspark.verifier.native import structs
from dspark.verifier.native.library import load_library


def test_sizes_agree() -> None:
    mirrors = [
        structs.PackedLinearStruct,
        structs.NormStruct,
        structs.AttentionBatchStruct,
        structs.HeadShapeStruct,
        structs.AttentionParamsStruct,
        structs.DecoderLayerStruct,
        structs.DecoderStruct,
        structs.DecoderPassStruct,
    ]
    sizes = (ctypes.c_int64 * len(mirrors))()
    load_library().dspark_struct_sizes(sizes)
    assert [ctypes.sizeof(mirror) for mirror in mirrors] == list(sizes)
