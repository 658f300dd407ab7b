"""Conversion between plain values and protobuf messages: the only place besides servicers and clients
that knows both."""
