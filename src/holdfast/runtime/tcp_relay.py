"""Connects stdin and stdout to a TCP port of this machine: `tcp_relay.py HOST PORT`. It runs on a node of a cluster,
for listeners that no other machine can reach, with the Python of the node: 3.8 or newer. The end of stdin closes one
direction, the end of the connection ends the program."""

from __future__ import annotations

import os
import socket
import sys
import threading

_READ_SIZE = 64 * 1024  # max bytes of one read


def main() -> None:
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
    try:
        while data := connection.recv(_READ_SIZE):
            _write_all(data)
    except OSError:
        os._exit(1)
    os._exit(0)


def _send_input(connection: socket.socket) -> None:
    try:
        while data := os.read(0, _READ_SIZE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
