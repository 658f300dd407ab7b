"""K/V blocks between verifiers on the wire."""

from __future__ import annotations

from dspark.kv_blocks import BlockType, ImportHead, KvBlocks, KvLayout
from dspark.v1 import verifier_service_pb2 as pb


def layout_to_proto(layout: KvLayout) -> pb.KvLayout:
    return pb.KvLayout(
        dtype=layout.dtype,
        num_layers=layout.num_layers,
        block_size=layout.block_size,
        num_kv_heads=layout.num_kv_heads,
        head_dim=layout.head_dim,
        block_bytes=layout.block_bytes,
    )


def layout_from_proto(message: pb.KvLayout) -> KvLayout:
    return KvLayout(
        dtype=message.dtype,
        num_layers=message.num_layers,
        block_size=message.block_size,
        num_kv_heads=message.num_kv_heads,
        head_dim=message.head_dim,
        block_bytes=message.block_bytes,
    )


def type_to_proto(block_type: BlockType) -> pb.BlockType:
    return pb.BlockType(
        model_digest=block_type.model_digest,
        kernel_class=block_type.kernel_class,
        layout=layout_to_proto(block_type.layout),
    )


def type_from_proto(message: pb.BlockType) -> BlockType:
    layout = layout_from_proto(message.layout)
    return BlockType(message.model_digest, message.kernel_class, layout)


def blocks_to_proto(blocks: KvBlocks) -> pb.KvBlocks:
    return pb.KvBlocks(first_block=blocks.first_block, data=blocks.data, crc32=blocks.crc32)


def blocks_from_proto(message: pb.KvBlocks) -> KvBlocks:
    return KvBlocks(message.first_block, message.data, message.crc32)


def head_to_proto(head: ImportHead) -> pb.ImportHead:
    return pb.ImportHead(
        type=type_to_proto(head.type), token_ids=head.token_ids, cache_salt=head.cache_salt
    )


def head_from_proto(message: pb.ImportHead) -> ImportHead:
    return ImportHead(type_from_proto(message.type), tuple(message.token_ids), message.cache_salt)
