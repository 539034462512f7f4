"""The server's own ports: which addresses are bound, what else has them, and who holds them while no server runs."""
