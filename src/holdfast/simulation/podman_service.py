"""Podman's API service for the time of a simulation: Podman has no daemon, and its socket is often not enabled."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from holdfast.core.errors import UserError, sanitize_output

IDLE_TIME = "60"  # seconds without a connection after which it ends: its simulation was killed
_START_TIMEOUT = 30.0  # seconds
_START_INTERVAL = 0.05  # seconds between two attempts to connect
_STOP_TIMEOUT = 10.0  # seconds


def make_socket_path() -> str:
    """Return the path for a new socket. It is short: at most 108 characters are possible."""
    return f"{tempfile.gettempdir()}/holdfast-{secrets.token_hex(8)}/podman.sock"


class PodmanService:
    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._folder = Path(socket).parent
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it accepts connections. UserError if Podman is missing or fails."""
        if shutil.which("podman") is None:
            raise UserError("podman is not installed", hint="Install podman, or simulate without --with.")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if await self._accepts_connections():  # left by a killed simulation
            return
        with (self._folder / "errors").open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                "podman", "system", "service", "--time", IDLE_TIME, f"unix://{self._socket}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # the simulation handles Ctrl-C
            )  # fmt: skip
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                while not await self._accepts_connections():
                    if self._process.returncode is not None:
                        raise TimeoutError
                    await asyncio.sleep(_START_INTERVAL)
        except TimeoutError:
            errors_text = sanitize_output((self._folder / "errors").read_bytes())[-300:]
            raise UserError(f"podman is not responding: {errors_text}", hint="Try `podman info`.") from None

    async def _accepts_connections(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """Idempotent."""
        if self._process is not None and self._process.returncode is None:
            self._send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT)
            except TimeoutError:
                self._send_signal(signal.SIGKILL)
                await self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send_signal(self, number: signal.Signals) -> None:
        """Send it to the process group: for an ordinary user, Podman starts itself again in a user namespace."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
