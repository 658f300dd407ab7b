"""Plain values to protobuf messages and back: only this, servicers and clients know both."""
