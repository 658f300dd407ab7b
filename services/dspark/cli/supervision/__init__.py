"""Runs the four services as child processes."""
