"""A gateway in this process, and the real clients of OpenSSH outside."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.access import Actor
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.server.ssh.gateway import GatewayServer
from holdfast.server.ssh.lazy_gateway import LazySshGateway
from tests.services.house import TIMEOUT, House

JOB = "name: train\ncommand: sleep 1000\n"


@dataclass
class Ran:
    code: int
    out: bytes
    err: str


@dataclass
class SshRig:
    house: House
    gateway: GatewayServer
    folder: Path  # of the client

    @property
    def port(self) -> int:
        found = self.house.services.ssh_gateway.port
        assert found is not None
        return found

    def make_key(self, name: str = "id") -> Path:
        """A private key; the public one lies beside it."""
        path = self.folder / name
        if not path.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
        return path

    async def add_key(self, actor: Actor, name: str = "id") -> Path:
        path = self.make_key(name)
        await self.house.services.keys.add(actor, path.with_suffix(".pub").read_text())
        return path

    async def run_job(self, text: str = JOB, actor: Actor | None = None, **more: str) -> JobSummary:
        job = await self.house.submit(text, actor, **more)
        return await self.house.until(job.id, JobState.RUNNING)

    def options(self, key: str = "id", **more: str) -> list[str]:
        """What every client of OpenSSH is given."""
        given = {
            "IdentityFile": str(self.folder / key),
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "StrictHostKeyChecking": "accept-new",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
            "ConnectTimeout": "20",
            **more,
        }
        return ["-F", "none", *(word for name, value in given.items() for word in ("-o", f"{name}={value}"))]

    async def visits(self, job_id: str) -> list[str]:
        """What the job's events tell of those who entered."""
        await asyncio.gather(*self.house.services.task_access._save_tasks)
        events = await self.house.services.jobs.list_events(self.house.admin, job_id)
        return [event.message for event in events if event.kind == "entered"]

    def ssh_words(self, user: str, *words: str, key: str = "id") -> list[str]:
        return ["ssh", *self.options(key), "-p", str(self.port), "-l", user, *words]

    async def ssh(self, user: str, *words: str, key: str = "id", given: bytes = b"") -> Ran:
        """`words`: options, then the host, then the command."""
        return await self.run(self.ssh_words(user, *words, key=key), given)

    async def run(self, words: list[str], given: bytes = b"") -> Ran:
        environ = {**os.environ, "LC_ALL": "C"}
        process = await asyncio.create_subprocess_exec(
            *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        )
        try:
            async with asyncio.timeout(3 * TIMEOUT):
                out, err = await process.communicate(given)
        except BaseException:
            process.kill()
            raise
        assert process.returncode is not None
        return Ran(process.returncode, out, err.decode())


@asynccontextmanager
async def open_gateway(house: House, folder: Path) -> AsyncIterator[SshRig]:
    folder.mkdir()
    door = LazySshGateway(house.services)
    door.open_port()
    try:
        yield SshRig(house, await door.start_serving(), folder)
    finally:
        await door.close()
