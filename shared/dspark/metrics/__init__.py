"""Metrics of every service: plain numbers while it works, Prometheus families when it is asked."""
