"""How a tool changes clothes on its way to a function-only server, and back."""
