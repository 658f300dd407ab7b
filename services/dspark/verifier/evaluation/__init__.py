"""Compares a model's weight dtypes: how well each predicts texts, and how far they agree."""
