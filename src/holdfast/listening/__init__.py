"""The server's ports: the addresses to bind, other processes on them, and the process that holds them between runs."""
