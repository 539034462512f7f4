"""Run the tasks of a simulation in containers of `docker` or `podman`."""

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

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import UserError, sanitize_output
from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE, MIB
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import POSIX_SHELL_OPTIONS, LaunchSpec
from holdfast.engines.embedded.machine import build_node
from holdfast.engines.embedded.sandbox.gpus import list_gpus
from holdfast.engines.sandbox_paths import HOME_PATH
from holdfast.engines.task_program import make_variable_name
from holdfast.settings import Settings
from holdfast.start_options import build_engine_options

CONTAINER_LABEL = "holdfast.simulation"
_SCRIPT_FOLDER = "/.holdfast"  # folder of the script in a container
_DEFAULT_SHM_SIZE = 64 * MIB
_CHUNK_SIZE = 1 << 16  # bytes
_OUTPUT_TIMEOUT = 5.0  # seconds for the output of an ended container to arrive


@dataclass(slots=True)
class _Container:
    name: str
    process: asyncio.subprocess.Process
    output: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)  # empty: end of output
    pid: int | None = None


class ContainerBackend:
    isolated = True

    def __init__(self, program: str, home: Path, settings: Settings) -> None:
        self.name = program
        self._home = home
        self._options = build_engine_options(home, settings)
        self._containers: dict[str, _Container] = {}
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        self._on_change = on_change
        if shutil.which(self.name) is None:
            raise UserError(f"{self.name} is not installed", hint=f"Install {self.name}, or simulate without --with.")
        code, _, errors = await self._run_program("version")
        if code:
            hint = (
                "Check that its service is running and that you have access to it."
                if self.name == "docker"
                else f"Try `{self.name} info`."
            )
            raise UserError(f"{self.name} is not responding: {sanitize_output(errors)[-300:]}", hint=hint)
        self._node = await asyncio.to_thread(lambda: build_node(self._options, list_gpus()))

    async def close(self) -> None:
        for container in self._containers.values():
            if container.process.returncode is None:
                container.process.kill()
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)
        if shutil.which(self.name) is not None:
            await self._remove_containers()

    async def _remove_containers(self) -> None:
        code, names, _ = await self._run_program(
            "ps", "--all", "--quiet", "--filter", f"label={CONTAINER_LABEL}={self._home.name}"
        )
        if code == 0 and names.split():
            await self._run_program("rm", "--force", "--volumes", *names.decode().split())

    def get_node(self) -> Node:
        return self._node

    def list_notes(self) -> Sequence[str]:
        where = f"Tasks run in {self.name} containers as root, with the host's network."
        if _can_inspect_processes():
            return (where,)
        return (where, "Listening ports are not checked: that requires root on this machine.")

    async def find_image_problem(self, image: str) -> tuple[str, str] | None:
        if image == HOST_IMAGE:
            return f"{self.name} cannot run the image {HOST_IMAGE}, which is this machine itself", "Remove --with."
        code, _, _ = await self._run_program("image", "inspect", image)
        if code == 0:
            return None
        return f"{self.name} has no image {image}", f"Pull it: `{self.name} pull {image}`, or use `{self.name} load`."

    async def start(self, launch: LaunchSpec) -> Observation:
        folder = self._home / "containers" / launch.attempt_id
        await asyncio.to_thread(_write_launch_files, launch, folder)
        name = f"holdfast-{self._home.name}-{len(self._containers)}"
        process = await self._spawn_program(
            *self._build_arguments(launch, folder, name), stderr=asyncio.subprocess.STDOUT
        )
        container = _Container(name, process)
        self._containers[launch.attempt_id] = container
        self._run_in_background(self._wait_for_exit(launch.attempt_id, container))
        return Observation(attempt_id=launch.attempt_id, seen=ObservedState.RUNNING)

    def _build_arguments(self, launch: LaunchSpec, folder: Path, name: str) -> list[str]:
        asked = launch.resources
        arguments = ["run", "--name", name, "--label", f"{CONTAINER_LABEL}={self._home.name}", "--network", "host"]
        arguments += ["--user", "0", "--entrypoint", "/bin/sh", "--pull", "never"]
        arguments += [
            "--memory",
            str(asked.memory),
            "--cpus",
            f"{asked.cpu:g}",
            "--shm-size",
            str(asked.shm or _DEFAULT_SHM_SIZE),
        ]
        if launch.gpus:
            arguments += ["--gpus", f'"device={",".join(map(str, launch.gpus))}"']
        arguments += ["--mount", _format_mount(str(folder), _SCRIPT_FOLDER, read_only=True)]
        for mount in launch.mounts:
            arguments += ["--mount", _format_mount(mount.volume.folder, mount.target, read_only=mount.read_only)]
        return [*arguments, launch.image, f"{_SCRIPT_FOLDER}/start"]

    async def _wait_for_exit(self, attempt_id: str, container: _Container) -> None:
        reader = asyncio.create_task(self._copy_output(container))
        code = await container.process.wait()
        # Processes that the container left running may keep the pipe open.
        await asyncio.wait([reader], timeout=_OUTPUT_TIMEOUT)
        reader.cancel()
        container.output.put_nowait(b"")
        self._on_change(await self._inspect_exit(attempt_id, container, code))

    async def _copy_output(self, container: _Container) -> None:
        assert container.process.stdout is not None
        while data := await container.process.stdout.read(_CHUNK_SIZE):
            container.output.put_nowait(data)

    async def _inspect_exit(self, attempt_id: str, container: _Container, code: int) -> Observation:
        known, output, _ = await self._run_program(
            "inspect", "--format", "{{.State.OOMKilled}} {{.State.StartedAt}}", container.name
        )
        oom, _, started = output.decode().strip().partition(" ")
        if known or started.startswith("0001"):
            text = f"{self.name} could not start it; its output is above."
            return Observation(
                attempt_id=attempt_id, seen=ObservedState.REFUSED, message=text, cause=Cause.INVALID_TASK
            )
        code = 128 - code if code < 0 else code
        return Observation(attempt_id=attempt_id, seen=ObservedState.EXITED, code=code, oom=oom == "true")

    async def stop(self, attempt_id: str, grace: float) -> None:
        container = self._containers.get(attempt_id)
        if container is not None and container.process.returncode is None:
            self._run_in_background(self._stop_container(container, grace))

    async def _stop_container(self, container: _Container, grace: float) -> None:
        words = ("stop", "--time", str(int(grace))) if grace else ("kill",)
        code, _, _ = await self._run_program(*words, container.name)
        if code and container.process.returncode is None:  # it does not exist yet
            await self._run_program("rm", "--force", container.name)
            container.process.kill()

    async def read_output(self, attempt_id: str) -> AsyncIterator[bytes]:
        container = self._containers[attempt_id]
        while data := await container.output.get():
            yield data

    async def list_pids(self, attempt_id: str) -> Sequence[int]:
        container = self._containers.get(attempt_id)
        if container is None or not _can_inspect_processes():
            return ()
        if not container.pid:
            code, output, _ = await self._run_program("inspect", "--format", "{{.State.Pid}}", container.name)
            container.pid = int(output) if code == 0 and output.strip().isdigit() else None
        return await asyncio.to_thread(_list_process_tree, container.pid) if container.pid else ()

    async def _run_program(self, *words: str) -> tuple[int, bytes, bytes]:
        process = await self._spawn_program(*words, stderr=asyncio.subprocess.PIPE)
        out, errors = await process.communicate()
        return process.returncode or 0, out, errors

    async def _spawn_program(self, *words: str, stderr: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self.name,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # the simulation handles Ctrl-C
        )

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


def _can_inspect_processes() -> bool:
    """Whether processes of root can be inspected."""
    return os.geteuid() == 0


def _list_process_tree(pid: int) -> list[int]:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []


def _format_mount(source: str, target: str, *, read_only: bool) -> str:
    """Format a mount option as a line of CSV."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if read_only else [])]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _write_launch_files(launch: LaunchSpec, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name, text in _render_launch_files(launch).items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        (folder / name).chmod(0o644)


def _render_launch_files(launch: LaunchSpec) -> dict[str, str]:
    """Render the files of a task. Variables are in a file: every user can read a command line."""
    ports = {
        f"HOLDFAST_PORT_{make_variable_name(label)}": _join_numbers(numbers) for label, numbers in launch.ports.items()
    }
    env = {"HOME": HOME_PATH, **ports, **launch.env, "HOLDFAST_ATTEMPT": launch.attempt_id}
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in env.items() if name.isidentifier())
    enter = _WORKDIR_SCRIPT.format(path=quote(launch.workdir)) if launch.workdir else _DEFAULT_WORKDIR_SCRIPT
    run = (
        f'"$shell" {_SCRIPT_FOLDER}/entry {_SCRIPT_FOLDER}/script'
        if launch.entry
        else f'"$shell" $options {_SCRIPT_FOLDER}/script'
    )
    start = _START_SCRIPT.format(
        own=_SCRIPT_FOLDER,
        enter=enter,
        options=_format_shell_options(launch.shell_options),
        posix=_format_shell_options([option for option in launch.shell_options if option in POSIX_SHELL_OPTIONS]),
        run=run,
    )
    return {"env": exports, "script": launch.script, "entry": launch.entry, "start": start}


def _join_numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _format_shell_options(options: Sequence[str]) -> str:
    return quote(" ".join(f"-o {option}" for option in options))


_WORKDIR_SCRIPT = """\
[ -d {path} ] || mkdir -p {path} || exit 1
cd {path} || exit 1
"""

_DEFAULT_WORKDIR_SCRIPT = """\
[ "$PWD" != / ] || cd "$HOME" || exit 1
"""

_START_SCRIPT = """\
. {own}/env
[ -d "$HOME" ] || mkdir -p "$HOME"
{enter}options={options}
shell=$(command -v bash) || {{
    shell=/bin/sh
    options={posix}
}}
exec {run}
"""
