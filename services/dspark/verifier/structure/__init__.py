"""Structured output: grammars that say which tokens a sequence may go on with."""
