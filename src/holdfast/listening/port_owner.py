"""Processes that listen on a port, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.tcp_listeners import list_tcp_listeners

MAX_COMMAND_LENGTH = 60  # characters


@dataclass(frozen=True, slots=True)
class PortOwner:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


def list_port_owners(port: int) -> list[PortOwner]:
    """Return the processes that listen on this port, on any address; empty without permission to see them."""
    sockets = {f"socket:[{each.inode}]" for each in list_tcp_listeners(port)}
    return [PortOwner(pid, _read_command_line(pid)) for pid in _iter_pids(sockets)] if sockets else []


def _iter_pids(sockets: set[str]) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - only few of many names are read
        if name.isdigit() and any(opened in sockets for opened in _iter_open_files(name)):
            yield int(name)


def _iter_open_files(pid: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115 - socket:[1] is not a path


def _read_command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return shorten_command([word.decode("utf-8", "replace") for word in words if word])


def shorten_command(words: Sequence[str]) -> str:
    """Return the command as one short line, without the program text after `-c`."""
    if "-c" in words:
        words = [*words[: words.index("-c") + 1], "…"]
    text = "".join(char if char.isprintable() else "?" for char in " ".join(words))
    return text if len(text) <= MAX_COMMAND_LENGTH else f"{text[: MAX_COMMAND_LENGTH - 1]}…"
