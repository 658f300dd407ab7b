"""ctypes mirrors of the structs in weights.h, rows.h, attention.h and decoder.h."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p

MAX_ROPES = 4


class PackedLinearStruct(ctypes.Structure):
    """A packed weight [n, k] and its padded bias."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("n", c_int32),
        ("k", c_int32),
        ("format", c_int32),
        ("reserved", c_int32),
    )


class NormStruct(ctypes.Structure):
    """An RMS norm; a null weight means none."""

    _fields_ = (("weight", c_void_p), ("eps", c_float), ("reserved", c_int32))


class AttentionBatchStruct(ctypes.Structure):
    """The index arrays of a pass."""

    _fields_ = (
        ("slot_mapping", c_void_p),
        ("prefix_slots", c_void_p),
        ("prefix_starts", c_void_p),
        ("prefix_lens", c_void_p),
        ("tail_slots", c_void_p),
        ("tail_starts", c_void_p),
        ("tail_lens", c_void_p),
    )


class HeadShapeStruct(ctypes.Structure):
    """Numbers and size of heads, and the dtype of the KV pool."""

    _fields_ = (
        ("heads", c_int32),
        ("kv_heads", c_int32),
        ("head_dim", c_int32),
        ("kv_is_bf16", c_int32),
    )


class AttentionParamsStruct(ctypes.Structure):
    """A layer's scaling, soft cap (0: none) and sliding window (0: none)."""

    _fields_ = (
        ("scaling", c_float),
        ("soft_cap", c_float),
        ("window", c_int32),
        ("reserved", c_int32),
    )


class DecoderLayerStruct(ctypes.Structure):
    """One decoder layer."""

    _fields_ = (
        ("qkv", PackedLinearStruct),
        ("output", PackedLinearStruct),
        ("gate_up", PackedLinearStruct),
        ("down", PackedLinearStruct),
        ("input_norm", NormStruct),
        ("attention_out_norm", NormStruct),
        ("mlp_norm", NormStruct),
        ("mlp_out_norm", NormStruct),
        ("q_norm", NormStruct),
        ("k_norm", NormStruct),
        ("attention", AttentionParamsStruct),
        ("rope", c_int32),
        ("reserved", c_int32),
    )


class DecoderStruct(ctypes.Structure):
    """A whole decoder and the KV pool that it runs over."""

    _fields_ = (
        ("layers", c_void_p),
        ("num_layers", c_int32),
        ("hidden_size", c_int32),
        ("intermediate_size", c_int32),
        ("activation", c_int32),
        ("shape", HeadShapeStruct),
        ("final_norm", NormStruct),
        ("head", PackedLinearStruct),
        ("logit_cap", c_float),
        ("rotary_dim", c_int32),
        ("kv_pool", c_void_p),
        ("kv_plane_bytes", c_int64),
    )


class DecoderPassStruct(ctypes.Structure):
    """The rows of one pass."""

    _fields_ = (
        ("rows", c_int32),
        ("num_logits", c_int32),
        ("embeddings", c_void_p),
        ("batch", AttentionBatchStruct),
        ("cos", c_void_p * MAX_ROPES),
        ("sin", c_void_p * MAX_ROPES),
        ("logits_rows", c_void_p),
        ("logits", c_void_p),
        ("feature_rows", c_void_p),
        ("feature_layers", c_void_p),
        ("features", c_void_p),
        ("num_feature_rows", c_int32),
        ("num_feature_layers", c_int32),
        ("first_layer", c_int32),
        ("end_layer", c_int32),
        ("carried_rows", c_void_p),
        ("probe_rows", c_void_p),
        ("probes", c_void_p),
        ("num_probes", c_int32),
        ("reserved", c_int32),
    )
