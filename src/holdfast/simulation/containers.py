"""Tasks in containers, by the programs `docker` or `podman`: their images, and otherwise what the sandbox gives."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import psutil

from holdfast.bootstrap import engine_options
from holdfast.core.attempt import Observation, Seen
from holdfast.core.errors import UserError, quoted
from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE, MIB
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import POSIX_OPTIONS, Launch
from holdfast.engines.embedded.machine import find_node
from holdfast.engines.embedded.sandbox.gpus import find_gpus
from holdfast.engines.embedded.sandbox.render import variable_name
from holdfast.engines.embedded.sandbox_paths import HOME
from holdfast.settings import Settings

LABEL = "holdfast.simulation"
_OWN = "/.holdfast"  # where a container finds its script
_SHM = 64 * MIB
_CHUNK = 1 << 16
_LAST_WORDS = 5.0  # seconds for the output of an ended container to arrive


@dataclass(slots=True)
class _Container:
    name: str
    process: asyncio.subprocess.Process
    output: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)  # an empty piece ends it
    pid: int | None = None


class ContainerStage:
    isolated = True

    def __init__(self, program: str, home: Path, settings: Settings) -> None:
        self.name = program
        self._home = home
        self._options = engine_options(home, settings)
        self._containers: dict[str, _Container] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        self._on_change = on_change
        if shutil.which(self.name) is None:
            raise UserError(
                f"There is no program {self.name} here", hint=f"Install {self.name}, or simulate without --with."
            )
        code, _, errors = await self._call("version")
        if code:
            hint = (
                "Is its service running, and may you use it?" if self.name == "docker" else f"Try `{self.name} info`."
            )
            raise UserError(f"{self.name} does not answer: {quoted(errors)[-300:]}", hint=hint)
        self._node = await asyncio.to_thread(lambda: find_node(self._options, find_gpus()))

    async def close(self) -> None:
        for container in self._containers.values():
            if container.process.returncode is None:
                container.process.kill()
        if self._work:
            await asyncio.wait(self._work)
        if shutil.which(self.name) is not None:
            await self._remove_all()

    async def _remove_all(self) -> None:
        code, names, _ = await self._call("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self._home.name}")
        if code == 0 and names.split():
            await self._call("rm", "--force", "--volumes", *names.decode().split())

    def node(self) -> Node:
        return self._node

    def notes(self) -> Sequence[str]:
        where = f"The tasks run in containers of {self.name}, as root, with the machine's network."
        if _may_look():
            return (where,)
        return (where, "Which ports they listen on is not watched: that takes root on this machine.")

    async def missing_image(self, image: str) -> tuple[str, str] | None:
        if image == HOST_IMAGE:
            return f"The image {HOST_IMAGE} is this machine itself, which {self.name} cannot run", "Leave out --with."
        code, _, _ = await self._call("image", "inspect", image)
        if code == 0:
            return None
        return f"{self.name} has no image {image} here", f"Get it: {self.name} pull {image}, or {self.name} load."

    async def start(self, launch: Launch) -> Observation:
        folder = self._home / "containers" / launch.attempt_id
        await asyncio.to_thread(_lay_out, launch, folder)
        name = f"holdfast-{self._home.name}-{len(self._containers)}"
        process = await asyncio.create_subprocess_exec(
            self.name,
            *self._arguments(launch, folder, name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to deal with
        )
        container = _Container(name, process)
        self._containers[launch.attempt_id] = container
        self._background(self._watch(launch.attempt_id, container))
        return Observation(attempt_id=launch.attempt_id, seen=Seen.RUNNING)

    def _arguments(self, launch: Launch, folder: Path, name: str) -> list[str]:
        asked = launch.resources
        arguments = ["run", "--name", name, "--label", f"{LABEL}={self._home.name}", "--network", "host"]
        arguments += ["--user", "0", "--entrypoint", "/bin/sh", "--pull", "never"]
        arguments += ["--memory", str(asked.memory), "--cpus", f"{asked.cpu:g}", "--shm-size", str(asked.shm or _SHM)]
        if launch.gpus:
            arguments += ["--gpus", f'"device={",".join(map(str, launch.gpus))}"']
        arguments += ["--mount", _mount(str(folder), _OWN, read_only=True)]
        for mount in launch.mounts:
            arguments += ["--mount", _mount(mount.source, mount.target, read_only=mount.read_only)]
        return [*arguments, launch.image, f"{_OWN}/start"]

    async def _watch(self, attempt_id: str, container: _Container) -> None:
        reader = asyncio.create_task(self._read(container))
        code = await container.process.wait()
        # What the container left running may hold the pipe open.
        await asyncio.wait([reader], timeout=_LAST_WORDS)
        reader.cancel()
        container.output.put_nowait(b"")
        self._on_change(await self._end(attempt_id, container, code))

    async def _read(self, container: _Container) -> None:
        assert container.process.stdout is not None
        while data := await container.process.stdout.read(_CHUNK):
            container.output.put_nowait(data)

    async def _end(self, attempt_id: str, container: _Container, code: int) -> Observation:
        known, said, _ = await self._call(
            "inspect", "--format", "{{.State.OOMKilled}} {{.State.StartedAt}}", container.name
        )
        oom, _, started = said.decode().strip().partition(" ")
        if known or started.startswith("0001"):
            text = f"{self.name} could not start it; its own words are above."
            return Observation(attempt_id=attempt_id, seen=Seen.REFUSED, message=text, cause=Cause.INVALID_TASK)
        code = 128 - code if code < 0 else code
        return Observation(attempt_id=attempt_id, seen=Seen.EXITED, code=code, oom=oom == "true")

    async def stop(self, attempt_id: str, grace: float) -> None:
        container = self._containers.get(attempt_id)
        if container is not None and container.process.returncode is None:
            self._background(self._stop(container, grace))

    async def _stop(self, container: _Container, grace: float) -> None:
        words = ("stop", "--time", str(int(grace))) if grace else ("kill",)
        code, _, _ = await self._call(*words, container.name)
        if code and container.process.returncode is None:  # it is not there yet
            await self._call("rm", "--force", container.name)
            container.process.kill()

    async def output(self, attempt_id: str) -> AsyncIterator[bytes]:
        container = self._containers[attempt_id]
        while data := await container.output.get():
            yield data

    async def pids(self, attempt_id: str) -> Sequence[int]:
        container = self._containers.get(attempt_id)
        if container is None or not _may_look():
            return ()
        if not container.pid:
            code, said, _ = await self._call("inspect", "--format", "{{.State.Pid}}", container.name)
            container.pid = int(said) if code == 0 and said.strip().isdigit() else None
        return await asyncio.to_thread(_tree, container.pid) if container.pid else ()

    async def _call(self, *words: str) -> tuple[int, bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            self.name,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        out, errors = await process.communicate()
        return process.returncode or 0, out, errors

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _may_look() -> bool:
    """Others may not look into what root runs."""
    return os.geteuid() == 0


def _tree(pid: int) -> list[int]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []


def _mount(source: str, target: str, *, read_only: bool) -> str:
    """As these programs read it: a line of CSV."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if read_only else [])]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _lay_out(launch: Launch, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name, text in _files(launch).items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        (folder / name).chmod(0o644)


def _files(launch: Launch) -> dict[str, str]:
    """Variables lie in a file: on a command line everybody on the machine could read them."""
    ports = {f"HOLDFAST_PORT_{variable_name(label)}": _joined(numbers) for label, numbers in launch.ports.items()}
    env = {"HOME": HOME, **ports, **launch.env, "HOLDFAST_ATTEMPT": launch.attempt_id}
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in env.items() if name.isidentifier())
    enter = _WORKDIR.format(path=quote(launch.workdir)) if launch.workdir else _USUAL
    run = f'"$shell" {_OWN}/entry {_OWN}/script' if launch.entry else f'"$shell" $options {_OWN}/script'
    start = _START.format(
        own=_OWN,
        enter=enter,
        options=_options(launch.shell_options),
        posix=_options([option for option in launch.shell_options if option in POSIX_OPTIONS]),
        run=run,
    )
    return {"env": exports, "script": launch.script, "entry": launch.entry, "start": start}


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _options(options: Sequence[str]) -> str:
    return quote(" ".join(f"-o {option}" for option in options))


_WORKDIR = """\
[ -d {path} ] || mkdir -p {path} || exit 1
cd {path} || exit 1
"""

_USUAL = """\
[ "$PWD" != / ] || cd "$HOME" || exit 1
"""

_START = """\
. {own}/env
[ -d "$HOME" ] || mkdir -p "$HOME"
{enter}options={options}
shell=$(command -v bash) || {{
    shell=/bin/sh
    options={posix}
}}
exec {run}
"""
