"""Traces and logs, alike in every service. OTEL_* variables turn traces on."""
