"""Who may call whom between services, and how the connection proves it."""
