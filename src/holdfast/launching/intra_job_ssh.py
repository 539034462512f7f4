"""SSH between the tasks of a job: the ssh config of each task, and the gateway.

The scripts are for any POSIX shell and run inside the sandbox, with umask 077. `$own` is a private folder of the task,
`$ssh` the one where ssh reads its config. An image only needs the client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from shlex import quote

from holdfast.core.identity import build_unique_role_names
from holdfast.core.job import Job
from holdfast.engines.base import POSIX_SHELL_OPTIONS, LaunchSpec

from .context import GatewayAddress, LaunchContext
from .keys import make_job_key_pair
from .shell import fill_script, read_script, render_write_file

MAX_WRITTEN_HOSTS = 2000  # tasks of a job whose names are written out in a script
NO_CLIENT_MESSAGE = "This task cannot reach the others by ssh: openssh-client is not in the image."
_NOT_WRITABLE_MESSAGE = (
    "SSH between the tasks of this job is not available: the ssh config is not writable in this image."
)

_SSH_COMMAND_PATTERN = re.compile(r"\b(ssh|scp|sftp|rsync|pdsh|mpirun|mpiexec|orterun|horovodrun|deepspeed)\b")


def add_intra_job_ssh(launch: LaunchSpec, job: Job, context: LaunchContext) -> LaunchSpec:
    """Return the launch of one of several tasks; its script runs unchanged."""
    prepared = render_ssh_setup(launch.job_id, job, context, _render_message if uses_ssh(launch.script) else None)
    return replace(launch, entry=prepared + _render_run_script(launch)) if prepared else launch


def uses_ssh(script: str) -> bool:
    """Return whether the script uses ssh; other tasks get no warning about it."""
    return _SSH_COMMAND_PATTERN.search(script) is not None


def render_ssh_setup(
    job_id: str, job: Job, context: LaunchContext, say: Callable[[str], str] | None, *, once: bool = False
) -> str:
    """Return the script that a task runs first, the same for all of its job. `say` renders a command that logs a
    sentence; None: no log lines. `once`: the text is made once for all of them, so it may be slower to make and faster
    to run. Variables and options of the shell that runs it are unchanged."""
    gateway, seed = context.gateway, context.job_seed
    if gateway is None:
        return ""
    trouble = gateway.unavailable_reason if context.isolated else "Jobs are not isolated on this machine."
    if seed is None or trouble:
        return say(f"SSH between the tasks of this job is not available. {trouble}".rstrip()) if say else ""
    return fill_script(
        _SETUP_SCRIPT,
        find_ssh=FIND_SSH_SCRIPT,
        write_key=render_write_file("$own/id_ed25519", make_job_key_pair(seed).private),
        hosts=render_ssh_hosts(job_id, job, gateway, written=once and job.task_count <= MAX_WRITTEN_HOSTS),
        include_config=INCLUDE_CONFIG_SCRIPT,
        not_writable=say(_NOT_WRITABLE_MESSAGE) if say else ":",
        no_client=say(NO_CLIENT_MESSAGE) if say else ":",
    )


def render_ssh_hosts(job_id: str, job: Job, gateway: GatewayAddress, *, written: bool = False) -> str:
    """As a loop, since a role may have thousands of tasks; or all `written` out, which is much faster to run."""
    plain = build_unique_role_names(role.name for role in job.roles)
    roles = [
        (plain[role.name], role.name if role.name != plain[role.name] else "", role.instances) for role in job.roles
    ]
    if written:
        hosts = f"printf %s {quote(''.join(_render_host_lines(job_id, *role) for role in roles))}\n"
    else:
        calls = (f"hosts {quote(name)} {quote(other)} {count}\n" for name, other, count in roles)
        hosts = fill_script(_HOSTS_FUNCTION, job=quote(job_id)) + "".join(calls)
    known = render_write_file("$own/gateway", f"* {gateway.host_key}\n")
    way = fill_script(_GATEWAY_SCRIPT, job=job_id, host=gateway.host, port=gateway.port)
    return hosts + way + known


def _render_host_lines(job_id: str, name: str, other: str, count: int) -> str:
    """Return the same as the shell's `hosts`."""
    return "".join(
        f"Host {name}-{number}{f' {other}-{number}' if other else ''}\n    User {job_id}.{name}-{number}\n"
        for number in range(count)
    )


def _render_message(text: str) -> str:
    return f"echo {quote(f'[holdfast] {text}')} >&2\n"


def _render_run_script(launch: LaunchSpec) -> str:
    posix = [option for option in launch.shell_options if option in POSIX_SHELL_OPTIONS]
    return _RUN_SCRIPT.format(options=_render_options(launch.shell_options), posix=_render_options(posix))


def _render_options(options: Iterable[str]) -> str:
    return "".join(f" -o {quote(option)}" for option in options)


FIND_SSH_SCRIPT = read_script(__package__, "find_ssh.sh")
INCLUDE_CONFIG_SCRIPT = read_script(__package__, "include_config.sh")
_HOSTS_FUNCTION = read_script(__package__, "hosts_function.sh")
_GATEWAY_SCRIPT = read_script(__package__, "gateway.sh")
_SETUP_SCRIPT = read_script(__package__, "setup.sh")

_RUN_SCRIPT = """\
if [ -n "${{BASH_VERSION-}}" ]; then
    exec "$BASH"{options} "$1"
fi
exec /bin/sh{posix} "$1"
"""
