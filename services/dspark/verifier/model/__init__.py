"""The target model: loading, checking, and running it over flat rows."""
