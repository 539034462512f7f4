"""How tasks of a job reach each other by name: ssh is told of each, and of the gateway that leads to it.

The texts are for any POSIX shell and run inside the sandbox, with umask 077. `$own` is a folder that the task has to
itself, `$ssh` the one where ssh looks for its config. An image needs the client and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from shlex import quote

from holdfast.core.identity import plain_roles
from holdfast.core.job import Job
from holdfast.engines.base import POSIX_OPTIONS, Launch

from .context import Gateway, LaunchContext
from .keys import job_pair
from .shell import write_file

MAX_WRITTEN = 2000  # tasks of a job whose names stand in a script one by one
NO_CLIENT = "There is no ssh client (openssh-client) in the image: without one this task cannot reach the others."
_NOT_WRITTEN = "There is no ssh between the tasks of this job: its config cannot be written in this image."

_ASKS = re.compile(r"\b(ssh|scp|sftp|rsync|pdsh|mpirun|mpiexec|orterun|horovodrun|deepspeed)\b")


def with_intra_job_ssh(launch: Launch, job: Job, surroundings: LaunchContext) -> Launch:
    """The launch of one of several tasks; its script runs as it would without."""
    prepared = prepare_neighbours(launch.job_id, job, surroundings, _say if asks_for_ssh(launch.script) else None)
    return replace(launch, entry=prepared + _run(launch)) if prepared else launch


def asks_for_ssh(script: str) -> bool:
    """Others need not hear of what they do without."""
    return _ASKS.search(script) is not None


def prepare_neighbours(
    job_id: str, job: Job, surroundings: LaunchContext, say: Callable[[str], str] | None, *, once: bool = False
) -> str:
    """What a task runs first, the same for all of its job. `say` makes a command that tells a sentence; None: nothing
    is told. `once`: the text is made for all of them together, so it may take longer to make and less to run.
    Variables and options of the shell that runs it stay as they are."""
    gateway, seed = surroundings.gateway, surroundings.job_seed
    if gateway is None:
        return ""
    trouble = gateway.trouble if surroundings.isolated else "Jobs are not isolated on this machine."
    if seed is None or trouble:
        return say(f"There is no ssh between the tasks of this job. {trouble}".rstrip()) if say else ""
    return _PREPARE.format(
        find=FIND_SSH,
        key=write_file("$own/id_ed25519", job_pair(seed).private),
        hosts=render_hosts(job_id, job, gateway, written=once and job.task_count <= MAX_WRITTEN),
        tell=TELL_SSH,
        not_written=say(_NOT_WRITTEN) if say else ":\n",
        no_client=say(NO_CLIENT) if say else ":\n",
    )


def render_hosts(job_id: str, job: Job, gateway: Gateway, *, written: bool = False) -> str:
    """Says how ssh finds every task of the job. A loop, for a role may have thousands; or all `written` out, which asks
    far less of the shell."""
    plain = plain_roles(role.name for role in job.roles)
    roles = [
        (plain[role.name], role.name if role.name != plain[role.name] else "", role.instances) for role in job.roles
    ]
    if written:
        hosts = f"printf %s {quote(''.join(_hosts(job_id, *role) for role in roles))}\n"
    else:
        calls = (f"hosts {quote(name)} {quote(other)} {count}\n" for name, other, count in roles)
        hosts = _HOSTS.format(job=quote(job_id)) + "".join(calls)
    known = write_file("$own/gateway", f"* {gateway.host_key}\n")
    way = _GATEWAY.format(job=job_id, host=gateway.host, port=gateway.port)
    return hosts + way + known


def _hosts(job_id: str, name: str, other: str, count: int) -> str:
    """The same as the shell's `hosts` says."""
    return "".join(
        f"Host {name}-{number}{f' {other}-{number}' if other else ''}\n    User {job_id}.{name}-{number}\n"
        for number in range(count)
    )


def _say(text: str) -> str:
    return f"echo {quote(f'[holdfast] {text}')} >&2\n"


def _run(launch: Launch) -> str:
    posix = [option for option in launch.shell_options if option in POSIX_OPTIONS]
    return _RUN.format(options=_options(launch.shell_options), posix=_options(posix))


def _options(options: Iterable[str]) -> str:
    return "".join(f" -o {quote(option)}" for option in options)


# ssh looks into the home folder that the image's list of users names, whatever HOME says.
FIND_SSH = """\
client=$(ssh -V 2>&1) || :
case $client in
OpenSSH_*) ;;
*) client= ;;
esac
ssh=$(eval "echo ~$(id -un 2>/dev/null)" 2>/dev/null)/.ssh
case $ssh in
/*) mkdir -p "$ssh" 2>/dev/null || ssh=$HOME/.ssh ;;
*) ssh=$HOME/.ssh ;;
esac
"""

# The folder may be a user's own, mounted, and other jobs may use it at the same time: their config stays theirs, for
# each finds its own behind the one line that all have alike. Only clients from before 2016 cannot be told so. What is
# there is replaced in one step, so that nobody who reads it meanwhile takes half of it for the whole.
TELL_SSH = """\
config=$ssh/config
[ ! -L "$config" ] || config=$(readlink -f "$config")
case $client in
OpenSSH_[1-6].* | OpenSSH_7.[0-2]*) include= ;;
*) include="Include \\"$own/config\\"" ;;
esac
if [ -z "$include" ] || ! grep -qsxF "$include" "$config"; then
    fresh=$config.$HOLDFAST_ATTEMPT
    {
        echo '# job-ssh begins'
        if [ -n "$include" ]; then
            echo "$include"
        else
            cat "$own/config"
            echo 'Host *'
        fi
        echo '# job-ssh ends'
        [ ! -f "$config" ] || sed '/^# job-ssh begins/,/^# job-ssh ends/d' "$config"
    } >"$fresh"
    mv -f "$fresh" "$config" 2>/dev/null || { cat "$fresh" >"$config" && rm -f "$fresh"; }
fi
"""

# Written ten at a time: a call of the system for each would be most of what it costs.
_HOSTS = """\
hosts() {{
    number=0
    told=
    while [ "$number" -lt "$3" ]; do
        told="${{told}}Host $1-$number${{2:+ $2-$number}}
    User "{job}".$1-$number
"
        number=$((number + 1))
        case $number in
        *0) printf %s "$told" && told= ;;
        esac
    done
    printf %s "$told"
}}
"""

# By the name at the gateway, which only these hosts have: what every task needs stands there once.
_GATEWAY = """\
cat <<__
Match user {job}.*
    HostName {host}
    Port {port}
    IdentityFile "$own/id_ed25519"
    IdentitiesOnly yes
    PreferredAuthentications publickey
    StrictHostKeyChecking yes
    UserKnownHostsFile "$own/gateway"
    GlobalKnownHostsFile /dev/null
    LogLevel ERROR
__
"""

# Options that the environment gives to bash are for the command.
_PREPARE = """\
(
set +eu
umask 077
{find}own=/run/holdfast/ssh
(
set -e
mkdir -p "$own"
{key}{{
{hosts}}} >"$own/config"
{tell}) 2>/dev/null
if [ $? != 0 ]; then
{not_written}elif [ -z "$client" ]; then
{no_client}fi
)
"""

_RUN = """\
if [ -n "${{BASH_VERSION-}}" ]; then
    exec "$BASH"{options} "$1"
fi
exec /bin/sh{posix} "$1"
"""
