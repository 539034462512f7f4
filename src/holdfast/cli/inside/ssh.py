"""The `ssh` command: run the ssh client with a temporary key."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..command_after_dashes import get_command_after_dashes
from ..options import JobRefArgument, JsonOption
from .target_task import TaskNameArgument, find_server_address, open_task_client

if TYPE_CHECKING:
    from holdfast.sdk import Client, SshCommand, SshCommandList, TemporaryKey
    from holdfast.sdk.plain_client import PlainClient

HOST_KEY_ALIAS = "holdfast"  # host key alias of the gateway


def ssh(
    ctx: typer.Context,
    job: JobRefArgument,
    task: TaskNameArgument = None,
    print_line: Annotated[
        bool, typer.Option("--print", help="Only print the ssh command, for use with your own key: see `holdfast key`.")
    ] = False,
    config: Annotated[
        bool, typer.Option("--config", help="Only print an entry for ~/.ssh/config, for VS Code and other tools.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Open an SSH shell in a task, or run `-- COMMAND…`. No SSH key is required.

    Exits with the exit code of the command.
    """
    if print_line or config or json:
        with open_task_client() as client:
            line = _find_ssh_command(client, job, task)
        _print_ssh_command(line, config=config, json=json)
        return
    program = shutil.which("ssh")
    if program is None:
        _raise_missing_client(job, task)
    with tempfile.TemporaryDirectory(prefix="holdfast-ssh-") as folder:
        arguments = _prepare_ssh_options(Path(folder), job, task)
        raise typer.Exit(_run_ssh([str(program), *arguments, *get_command_after_dashes(ctx)]))


def _run_ssh(words: list[str]) -> int:
    """Run ssh and return its exit code; ssh handles Ctrl-C."""
    import signal

    process = subprocess.Popen(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = process.wait()
    return status if status >= 0 else 128 - status


def _prepare_ssh_options(folder: Path, job: str, task: str | None) -> list[str]:
    """Register a temporary key with the gateway and return the ssh options."""
    key, public = _create_key(folder)
    with open_task_client() as client:
        known = client.add_short_key(public)
        line = _find_ssh_command(client, job, task)
    (folder / "known_hosts").write_text(f"{HOST_KEY_ALIAS} {known.host_key}\n")
    return _build_ssh_options(folder, key, line, known)


def _create_key(folder: Path) -> tuple[Path, str]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    made = Ed25519PrivateKey.generate()
    path = folder / "key"
    path.touch(mode=0o600)
    path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return path, made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _build_ssh_options(folder: Path, key: Path, line: SshCommand, known: TemporaryKey) -> list[str]:
    """Build options that neither use nor change the user's keys, known hosts and configuration."""
    given = {
        "IdentityFile": key,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": folder / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": HOST_KEY_ALIAS,
        "StrictHostKeyChecking": "yes",
        "PreferredAuthentications": "publickey",
        "SendEnv": "LANG LC_*",
        "LogLevel": "ERROR",
    }
    words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    user, host = _reject_option(line.user), _reject_option(known.host)
    return ["-F", "none", *words, "-p", str(known.port), "-l", user, "--", host]


def _reject_option(word: str) -> str:
    """Return a value from the server; reject it if ssh would parse it as an option."""
    from holdfast.core.errors import UserError

    if not word or word.startswith("-"):
        raise UserError(f"The server sent an unsafe SSH user or host: {word[:100]!r}", hint="Do not use this server.")
    return word


def _find_ssh_command(client: Client | PlainClient, job: str, task: str | None) -> SshCommand:
    """Return the ssh line of a task; without a name, of a held task or the first one."""
    from holdfast.core.errors import UserError

    found = client.list_ssh_commands(job)
    if found.host_key is None:
        reason = (found.reason or "The SSH gateway is not running").rstrip(".")
        raise UserError(reason, hint=f"Use `{_build_exec_command(job, task)}` instead.")
    if not found.items:
        return _resolve_task_command(found, job, task)
    if task is None:
        return next((line for line in found.items if line.held), found.items[0])
    named = next((line for line in found.items if line.task == task), None)
    return named or _resolve_task_command(found, job, task)


def _resolve_task_command(found: SshCommandList, job: str, task: str | None) -> SshCommand:
    """Let the server resolve the task name; it reports why a task is not available."""
    from holdfast.core.errors import UserError
    from holdfast.sdk.inside import open_exec

    with open_exec(find_server_address(), job, task, argv=["true"]) as entered:
        meant = entered.target.task
    named = next((line for line in found.items if line.task == meant), None)
    if named is None:
        raise UserError(f"{meant} was not ready for SSH", hint="Try again.")
    return named


def _print_ssh_command(line: SshCommand, *, config: bool, json: bool) -> None:
    if json:
        output.emit_json(line)
    elif config:
        for text in (
            f"Host {line.user}",
            f"    HostName {line.host}",
            f"    Port {line.port}",
            f"    User {line.user}",
        ):
            output.emit_line(output.escape(text))
    else:
        output.emit_line(output.escape(line.command))
    output.print_hint("holdfast key add ~/.ssh/id_ed25519.pub")


def _raise_missing_client(job: str, task: str | None) -> None:
    from holdfast.core.errors import UserError

    instead = _build_exec_command(job, task)
    raise UserError("No ssh client found on this machine", hint=f"Use `{instead}`, which needs none.")


def _build_exec_command(job: str, task: str | None) -> str:
    return " ".join(["holdfast exec", job, *([task] if task else [])])
