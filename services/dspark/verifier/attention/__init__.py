"""Attention of flat rows over the paged KV pool."""
