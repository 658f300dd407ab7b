"""How often the gateway tries to start a process that works for it."""

# A fork may die of gRPC's threads before it has become another program.
MAX_STARTS = 4
