"""Structured outputs as grammars of llguidance, for the services that check and apply them."""
