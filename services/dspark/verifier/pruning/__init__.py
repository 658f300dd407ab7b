"""Early pruning: candidate rows that are hopeless after some layers leave the rest of the pass."""
