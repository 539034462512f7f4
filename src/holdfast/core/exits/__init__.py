"""How tasks end: exit codes, signals, causes, and OpenPAI's table of them."""
