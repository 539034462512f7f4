"""`holdfast ssh`: the system's ssh client, with a key that is made for this once."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRef, Json
from .target_task import TaskName, command_of, find_server, quick_client

if TYPE_CHECKING:
    from holdfast.sdk import Client, ShortKey, SshLine, SshLines
    from holdfast.sdk.plain import PlainClient

HOST = "holdfast"  # the name under which the gateway's key is known


def ssh(
    ctx: typer.Context,
    job: JobRef,
    task: TaskName = None,
    print_line: Annotated[
        bool, typer.Option("--print", help="Only print the ssh line, for a key of your own: see `holdfast key`.")
    ] = False,
    config: Annotated[
        bool, typer.Option("--config", help="Only print an entry for ~/.ssh/config, for VS Code and others.")
    ] = False,
    json: Json = False,
) -> None:
    """Open a shell in a task by ssh, without any key set up; `-- command…` runs that.

    Ends with the command's own exit code.
    """
    if print_line or config or json:
        with quick_client() as client:
            line = _line(client, job, task)
        _print(line, config=config, json=json)
        return
    program = shutil.which("ssh")
    if program is None:
        _no_client(job, task)
    with tempfile.TemporaryDirectory(prefix="holdfast-ssh-") as folder:
        arguments = _prepare(Path(folder), job, task)
        raise typer.Exit(_run([str(program), *arguments, *command_of(ctx)]))


def _run(words: list[str]) -> int:
    """Ctrl-C is the client's own affair, and the task's."""
    import signal

    process = subprocess.Popen(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = process.wait()
    return status if status >= 0 else 128 - status


def _prepare(folder: Path, job: str, task: str | None) -> list[str]:
    """A key that the gateway takes for some minutes; the options that lead there."""
    key, public = _make_key(folder)
    with quick_client() as client:
        known = client.add_short_key(public)
        line = _line(client, job, task)
    (folder / "known_hosts").write_text(f"{HOST} {known.host_key}\n")
    return _options(folder, key, line, known)


def _make_key(folder: Path) -> tuple[Path, str]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    made = Ed25519PrivateKey.generate()
    path = folder / "key"
    path.touch(mode=0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return path, made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _options(folder: Path, key: Path, line: SshLine, known: ShortKey) -> list[str]:
    """Nothing of the user's own keys, known hosts and configuration is used or changed."""
    given = {
        "IdentityFile": key,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": folder / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": HOST,
        "StrictHostKeyChecking": "yes",
        "PreferredAuthentications": "publickey",
        "SendEnv": "LANG LC_*",
        "LogLevel": "ERROR",
    }
    words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    user, host = _no_option(line.user), _no_option(known.host)
    return ["-F", "none", *words, "-p", str(known.port), "-l", user, "--", host]


def _no_option(word: str) -> str:
    """What a server said, and ssh would take for an option of its own."""
    from holdfast.core.errors import UserError

    if not word or word.startswith("-"):
        raise UserError(f"The server names {word[:100]!r}, which is no place for ssh", hint="Do you trust this server?")
    return word


def _line(client: Client | PlainClient, job: str, task: str | None) -> SshLine:
    """Of the task that is meant; without one as everywhere: one that is held, else the first."""
    from holdfast.core.errors import UserError

    found = client.ssh_lines(job)
    if not found.items:
        raise UserError(found.reason or "The SSH gateway does not listen", hint=f"holdfast show {job}")
    if task is None:
        return next((line for line in found.items if line.held), found.items[0])
    named = next((line for line in found.items if line.task == task), None)
    return named or _spelled_otherwise(found, job, task)


def _spelled_otherwise(found: SshLines, job: str, task: str) -> SshLine:
    """As the server takes the name; refused by it, with the reason, where no task is meant that can be entered."""
    from holdfast.core.errors import UserError
    from holdfast.sdk.inside import open_exec

    with open_exec(find_server(), job, task, argv=["true"]) as entered:
        meant = entered.entered.task
    named = next((line for line in found.items if line.task == meant), None)
    if named is None:
        raise UserError(f"{meant} could not be entered a moment ago", hint="Try again.")
    return named


def _print(line: SshLine, *, config: bool, json: bool) -> None:
    if json:
        output.emit_json(line)
    elif config:
        for text in (
            f"Host {line.user}",
            f"    HostName {line.host}",
            f"    Port {line.port}",
            f"    User {line.user}",
        ):
            output.emit(output.safe(text))
    else:
        output.emit(output.safe(line.command))
    output.hint("holdfast key add ~/.ssh/id_ed25519.pub")


def _no_client(job: str, task: str | None) -> None:
    from holdfast.core.errors import UserError

    instead = " ".join(["holdfast exec", job, *([task] if task else [])])
    raise UserError("There is no ssh client on this machine", hint=f"`{instead}` does the same without one.")
