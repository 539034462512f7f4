"""The plugin `ssh`: tasks of a job that reach each other, and a user who reaches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

from holdfast.core.attempt import TaskAttempt

from ..context import Gateway, LaunchContext, is_on, plugin_calls
from ..intra_job_ssh import FIND_SSH, NO_CLIENT, TELL_SSH, render_hosts
from ..keys import count_others, job_pair, sane_keys
from ..shell import write_file
from .entry import Step
from .parameters import number_of
from .saying import SAY
from .variables import Scene, first_port

BARRIER_MINUTES = 30
_MAX_BARRIER = 60 * 24 * 7  # minutes


def ssh_step(scene: Scene, surroundings: LaunchContext, parameters: Mapping[str, Any]) -> Step | None:
    written = _user_keys(surroundings, parameters)
    keys, others = sane_keys(written), count_others(written)
    seed = surroundings.job_seed if scene.snapshot.job.gang and is_on(parameters.get("jobssh")) else None
    if not keys and seed is None:
        return Step(plugin="ssh", before=SAY + _left_out(others)) if others else None
    if not surroundings.isolated:  # its files and its sshd would be the machine's own
        return Step(
            plugin="ssh", before=f"{SAY}{_NOT_ISOLATED}{'exit 249' if is_on(parameters.get('sshbarrier')) else ''}\n"
        )
    gateway = surroundings.gateway if surroundings.gateway and not surroundings.gateway.trouble else None
    parts = [SAY, _left_out(others), _FOLDERS]
    if seed is not None:
        pair = job_pair(seed)
        keys = [pair.public, *keys]
        parts.append(_KEY_PAIR.format(private=quote(pair.private), public=quote(pair.public + "\n")))
        parts.append(write_file("$own/known_hosts", f"* {pair.public}\n"))
    parts.append(write_file("$own/authorized_keys", "".join(f"{key}\n" for key in keys)))
    parts.append(_SSHD.replace("<without>", quote(_without(gateway))))
    if seed is not None:
        parts.append(_config(scene, gateway))
        if is_on(parameters.get("sshbarrier")):
            parts.append(_barrier(scene, parameters, gateway))
    return Step(plugin="ssh", before="".join(parts))


def _user_keys(surroundings: LaunchContext, parameters: Mapping[str, Any]) -> list[str]:
    if "userssh" not in parameters:
        return []
    given = parameters["userssh"]
    value = given.get("value") if isinstance(given, Mapping) else None
    return [*surroundings.user_keys, *([value] if isinstance(value, str) else [])]


def _left_out(count: int) -> str:
    if not count:
        return ""
    said = (
        "1 key of userssh is not a public key and was"
        if count == 1
        else f"{count} keys of userssh are not public keys and were"
    )
    return f"say WARN {quote(f'{said} left out.')}\n"


def _without(gateway: Gateway | None) -> str:
    """What becomes of a task that has no sshd."""
    return "It is reached through the SSH gateway." if gateway else "Nobody can log in to it by ssh."


def _config(scene: Scene, gateway: Gateway | None) -> str:
    """Straight to where an sshd listens, as far as can be known: that goes on when the server does not. What this
    task's image has, every task of the same image has."""
    if gateway is None:
        return _CONFIG.format(hosts=_direct(scene, scene.crowd.placed)) + TELL_SSH + _TELL_NO_CLIENT
    roles = _roles_with_ssh(scene)
    same = [role.name for role in scene.snapshot.job.roles if role.engine_image == scene.role.engine_image]
    direct = f'[ "$reachable" = no ] || {_direct(scene, [name for name in same if name in roles])}'
    others = render_hosts(scene.snapshot.id, scene.snapshot.job, gateway)
    return _CONFIG.format(hosts=direct + others) + TELL_SSH + _TELL_NO_CLIENT


def _direct(scene: Scene, roles: Iterable[str]) -> str:
    blocks = quote("".join(_host_blocks(scene, roles))).replace(_OWN, "'\"$own\"'")
    return f"printf %s {blocks}\n"


def _host_blocks(scene: Scene, roles: Iterable[str]) -> Iterator[str]:
    for role in roles:
        for task in scene.crowd.placed[role]:
            yield _HOST.format(
                names=" ".join(_names(scene, task)),
                address=scene.crowd.address(task),
                port=first_port(task, "ssh"),
                own=_OWN,
            )


def _names(scene: Scene, task: TaskAttempt) -> list[str]:
    """Plain first. A name of the first age may hold a `~`, which ssh takes as it is."""
    return [f"{spelling}-{task.index}" for spelling in reversed(scene.crowd.spellings(task.role))]


def _barrier(scene: Scene, parameters: Mapping[str, Any], gateway: Gateway | None) -> str:
    """Wait for those tasks that have the plugin too."""
    minutes = BARRIER_MINUTES
    if parameters.get("sshbarrierTimeout") is not None:
        minutes = number_of(parameters, "sshbarrierTimeout", least=1, most=_MAX_BARRIER)
    roles = _roles_with_ssh(scene)
    tasks = [
        _names(scene, task)[0] for role in scene.crowd.placed if role in roles for task in scene.crowd.placed[role]
    ]
    me = _names(scene, scene.task)[0]
    others = [task for task in tasks if task != me]
    if not others:
        return ""
    parts = [
        _NEVER_THROUGH if gateway else _NEVER,
        _BARRIER.format(others=" ".join(others), seconds=minutes * 60),
        _led_by(tasks[0], me) if gateway and _are_alike(scene, roles) else "reach true\n",
        _PASSED,
    ]
    return "".join(parts)


def _are_alike(scene: Scene, roles: Iterable[str]) -> bool:
    """Either all of these tasks have an sshd or none has, and all of them have the barrier."""
    job = scene.snapshot.job
    calls = [call for call in plugin_calls(job) if call.get("plugin") == "ssh"]
    return len(calls) == 1 and len({job.role(role).engine_image for role in roles}) == 1


def _led_by(first: str, me: str) -> str:
    """Through the gateway the first task reaches all others and tells them. If each went to see every other, that would
    be thousands of logins, all at the same server."""
    through = _LEAD if me == first else _FOLLOW.format(first=first)
    return f'if [ "$reachable" = yes ]; then\n    reach true\nelse\n{through}fi\n'


def _roles_with_ssh(scene: Scene) -> set[str]:
    job = scene.snapshot.job
    everyone = [role.name for role in job.roles]
    calls = [call for call in plugin_calls(job) if call.get("plugin") == "ssh"]
    return {role for call in calls for role in call.get("taskroles", everyone)}


_NOT_ISOLATED = "say WARN 'There is no ssh between or into these tasks: jobs are not isolated on this machine.'\n"

_TOLD = "/run/holdfast/ssh-barrier"  # a file: all tasks have been seen to answer
_OWN = "<own>"  # put in by the shell, which knows it; no role and no address holds it
_HOST = """\
Host {names}
    HostName {address}
    Port {port}
    User root
    IdentityFile {own}/id_ed25519
    StrictHostKeyChecking yes
    UserKnownHostsFile {own}/known_hosts
    GlobalKnownHostsFile /dev/null
    LogLevel ERROR
"""

_FOLDERS = f"""\
umask 077
{FIND_SSH}own=$PAI_RUNTIME_DIR/ssh
mkdir -p "$ssh" "$own"
"""

# Under both names: OpenPAI's pairs were RSA, and scripts name the file. The folder may be a user's own, mounted: a key
# that is there stays, and ours is found by what the config says.
_KEY_PAIR = """\
for name in id_ed25519 id_rsa; do
    rm -f "$own/$name" "$own/$name.pub"
    printf %s {private} >"$own/$name"
    printf %s {public} >"$own/$name.pub"
    [ -e "$ssh/$name" ] || cp "$own/$name" "$own/$name.pub" "$ssh/"
done
"""

_CONFIG = """\
{{
{hosts}}} >"$own/config"
"""

_TELL_NO_CLIENT = f"""\
[ -n "$client" ] || say WARN {quote(NO_CLIENT)}
"""

_SSHD = """\
reachable=no
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd || :)
if [ -z "$sshd" ] || ! command -v ssh-keygen >/dev/null; then
    say WARN 'This task has no sshd: that needs openssh-server in the image, and there is none. '<without>
elif [ "$(id -u)" != 0 ]; then
    say WARN 'This task has no sshd: it would have to run as root, and the task does not. '<without>
else
    # Tasks know each other by the key of the job: whoever else listens on a port, once it is free, is not one of them.
    key=$own/id_ed25519
    if [ ! -e "$key" ]; then
        key=$own/host_key
        rm -f "$key"
        ssh-keygen -q -t ed25519 -N '' -f "$key"
    fi
    [ -d /run/sshd ] || mkdir -p -m 0755 /run/sshd
    env | grep '^[A-Za-z_][A-Za-z0-9_]*=' | grep -v '^\\(PWD\\|OLDPWD\\|SHLVL\\|_\\)=' >"$ssh/environment"
    {
        echo "Port $PAI_CONTAINER_SSH_PORT"
        echo "HostKey $key"
        echo "AuthorizedKeysFile $own/authorized_keys .ssh/authorized_keys"
        echo "PidFile $own/sshd.pid"
        echo 'PasswordAuthentication no'
        echo 'KbdInteractiveAuthentication no'
        echo 'PermitRootLogin prohibit-password'
        echo 'PermitUserEnvironment yes'
        echo 'UsePAM no'
        echo 'StrictModes no'
        echo 'Subsystem sftp internal-sftp'
    } >"$own/sshd_config"
    if "$sshd" -f "$own/sshd_config" -E "$own/sshd.log"; then
        reachable=yes
        say INFO "sshd listens on port $PAI_CONTAINER_SSH_PORT."
    else
        say ERROR "sshd could not be started: $(tail -n 1 "$own/sshd.log" 2>/dev/null)"
        exit 1
    fi
fi
"""

_NEVER = """\
if [ "$reachable" = no ] || [ -z "$client" ]; then
    say ERROR 'The SSH barrier can never be passed: it needs openssh-server and openssh-client in the image, and root.'
    exit 249
fi
"""

_NEVER_THROUGH = """\
if [ -z "$client" ]; then
    say ERROR 'The SSH barrier can never be passed: it needs openssh-client in the image.'
    exit 249
fi
"""

_BARRIER = """\
waited=0
pause=1
rest() {{
    if [ "$waited" -ge {seconds} ]; then
        say ERROR "SSH barrier reaches max retry count: $1 did not answer within {seconds} seconds."
        exit 249
    fi
    sleep "$pause"
    waited=$((waited + pause))
    pause=$((pause < 10 ? pause + 1 : 10))
}}
reach() {{
    for host in {others}; do
        until ssh -o BatchMode=yes -o ConnectTimeout=10 "$host" "$1" </dev/null 2>/dev/null; do
            rest "$host"
        done
    done
}}
"""

_LEAD = f"""\
    reach true
    reach ': >{_TOLD}'
"""

_FOLLOW = f"""\
    until [ -e {_TOLD} ]; do
        pause=1
        rest {{first}}
    done
"""

_PASSED = """\
say INFO 'SSH barrier passed: every other task answers.'
"""
