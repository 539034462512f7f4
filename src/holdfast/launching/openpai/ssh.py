"""The plugin `ssh`: SSH between the tasks of a job, and from the user to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

from holdfast.core.attempt import TaskAttempt

from ..context import GatewayAddress, LaunchContext, is_true, list_plugin_calls
from ..intra_job_ssh import FIND_SSH_SCRIPT, INCLUDE_CONFIG_SCRIPT, NO_CLIENT_MESSAGE, render_ssh_hosts
from ..keys import count_invalid_keys, filter_public_keys, make_job_key_pair
from ..shell import fill_script, read_script, render_write_file
from .entry import PluginStep
from .log_messages import SAY_FUNCTION
from .parameters import get_number
from .variables import TaskContext

DEFAULT_BARRIER_TIMEOUT = 30  # minutes
_MAX_BARRIER_TIMEOUT = 60 * 24 * 7  # minutes


def make_ssh_step(scene: TaskContext, context: LaunchContext, parameters: Mapping[str, Any]) -> PluginStep | None:
    written = _list_user_keys(context, parameters)
    keys, others = filter_public_keys(written), count_invalid_keys(written)
    seed = context.job_seed if scene.snapshot.job.gang and is_true(parameters.get("jobssh")) else None
    if not keys and seed is None:
        return PluginStep(plugin="ssh", before=SAY_FUNCTION + _render_skipped_keys_warning(others)) if others else None
    if not context.isolated:  # its files and its sshd would be the machine's own
        return PluginStep(
            plugin="ssh",
            before=f"{SAY_FUNCTION}{_NOT_ISOLATED_WARNING}"
            f"{'exit 249' if is_true(parameters.get('sshbarrier')) else ''}\n",
        )
    gateway = context.gateway if context.gateway and not context.gateway.unavailable_reason else None
    parts = [SAY_FUNCTION, _render_skipped_keys_warning(others), _FOLDERS_SCRIPT]
    if seed is not None:
        pair = make_job_key_pair(seed)
        keys = [pair.public, *keys]
        parts.append(fill_script(_KEY_PAIR_SCRIPT, private=quote(pair.private), public=quote(pair.public + "\n")))
        parts.append(render_write_file("$own/known_hosts", f"* {pair.public}\n"))
    parts.append(render_write_file("$own/authorized_keys", "".join(f"{key}\n" for key in keys)))
    parts.append(fill_script(_SSHD_SCRIPT, without=quote(_format_no_sshd_hint(gateway))))
    if seed is not None:
        parts.append(_render_ssh_config(scene, gateway))
        if is_true(parameters.get("sshbarrier")):
            parts.append(_render_barrier(scene, parameters, gateway))
    return PluginStep(plugin="ssh", before="".join(parts))


def _list_user_keys(context: LaunchContext, parameters: Mapping[str, Any]) -> list[str]:
    if "userssh" not in parameters:
        return []
    given = parameters["userssh"]
    value = given.get("value") if isinstance(given, Mapping) else None
    return [*context.user_keys, *([value] if isinstance(value, str) else [])]


def _render_skipped_keys_warning(count: int) -> str:
    if not count:
        return ""
    message = (
        "1 key of userssh is not a public key and is"
        if count == 1
        else f"{count} keys of userssh are not public keys and are"
    )
    return f"say WARN {quote(f'{message} ignored.')}\n"


def _format_no_sshd_hint(gateway: GatewayAddress | None) -> str:
    return "Use the SSH gateway instead." if gateway else "SSH logins are not possible."


def _render_ssh_config(scene: TaskContext, gateway: GatewayAddress | None) -> str:
    """Render the config: directly to an sshd where one is known, which works without the server. All tasks of an image
    have the same programs."""
    if gateway is None:
        return (
            _CONFIG_SCRIPT.format(hosts=_render_direct_hosts(scene, scene.job_tasks.placed_tasks))
            + INCLUDE_CONFIG_SCRIPT
            + _NO_CLIENT_WARNING
        )
    roles = _find_ssh_roles(scene)
    same = [role.name for role in scene.snapshot.job.roles if role.engine_image == scene.role.engine_image]
    direct = f'[ "$reachable" = no ] || {_render_direct_hosts(scene, [name for name in same if name in roles])}'
    others = render_ssh_hosts(scene.snapshot.id, scene.snapshot.job, gateway)
    return _CONFIG_SCRIPT.format(hosts=direct + others) + INCLUDE_CONFIG_SCRIPT + _NO_CLIENT_WARNING


def _render_direct_hosts(scene: TaskContext, roles: Iterable[str]) -> str:
    blocks = quote("".join(_render_host_blocks(scene, roles))).replace(_OWN_FOLDER_PLACEHOLDER, "'\"$own\"'")
    return f"printf %s {blocks}\n"


def _render_host_blocks(scene: TaskContext, roles: Iterable[str]) -> Iterator[str]:
    for role in roles:
        for task in scene.job_tasks.placed_tasks[role]:
            yield _HOST_BLOCK.format(
                names=" ".join(_list_host_names(scene, task)),
                address=scene.job_tasks.get_address(task),
                port=scene.job_tasks.get_first_port(task, "ssh"),
                own=_OWN_FOLDER_PLACEHOLDER,
            )


def _list_host_names(scene: TaskContext, task: TaskAttempt) -> list[str]:
    """Return the names, the plain one first. A name in OpenPAI's old format may contain a `~`, which ssh accepts."""
    return [f"{spelling}-{task.index}" for spelling in reversed(scene.job_tasks.list_spellings(task.role))]


def _render_barrier(scene: TaskContext, parameters: Mapping[str, Any], gateway: GatewayAddress | None) -> str:
    """Render a wait for the tasks that also have the plugin."""
    minutes = DEFAULT_BARRIER_TIMEOUT
    if parameters.get("sshbarrierTimeout") is not None:
        minutes = get_number(parameters, "sshbarrierTimeout", least=1, most=_MAX_BARRIER_TIMEOUT)
    roles = _find_ssh_roles(scene)
    tasks = [
        _list_host_names(scene, task)[0]
        for role in scene.job_tasks.placed_tasks
        if role in roles
        for task in scene.job_tasks.placed_tasks[role]
    ]
    me = _list_host_names(scene, scene.task)[0]
    others = [task for task in tasks if task != me]
    if not others:
        return ""
    parts = [
        _GATEWAY_BARRIER_CHECK_SCRIPT if gateway else _BARRIER_CHECK_SCRIPT,
        fill_script(_BARRIER_FUNCTIONS, others=" ".join(others), seconds=minutes * 60),
        _render_leader_barrier(tasks[0], me) if gateway and _has_uniform_sshd(scene, roles) else "reach true\n",
        _BARRIER_PASSED_SCRIPT,
    ]
    return "".join(parts)


def _has_uniform_sshd(scene: TaskContext, roles: Iterable[str]) -> bool:
    """Return whether all or none of these tasks have an sshd, and all have the barrier."""
    job = scene.snapshot.job
    calls = [call for call in list_plugin_calls(job) if call.get("plugin") == "ssh"]
    return len(calls) == 1 and len({job.get_role(role).engine_image for role in roles}) == 1


def _render_leader_barrier(first: str, me: str) -> str:
    """Let the first task connect to all others through the gateway and notify them. If each connected to every other,
    the server would get thousands of logins."""
    through = _LEADER_SCRIPT if me == first else _FOLLOWER_SCRIPT.format(first=first)
    return f'if [ "$reachable" = yes ]; then\n    reach true\nelse\n{through}fi\n'


def _find_ssh_roles(scene: TaskContext) -> set[str]:
    job = scene.snapshot.job
    everyone = [role.name for role in job.roles]
    calls = [call for call in list_plugin_calls(job) if call.get("plugin") == "ssh"]
    return {role for call in calls for role in call.get("taskroles", everyone)}


_NOT_ISOLATED_WARNING = (
    "say WARN 'SSH to and between these tasks is disabled: jobs are not isolated on this machine.'\n"
)

_BARRIER_FILE = "/run/holdfast/ssh-barrier"  # a file: all tasks have responded
_OWN_FOLDER_PLACEHOLDER = "<own>"  # replaced by the shell; part of no role and no address
_HOST_BLOCK = """\
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

_FOLDERS_SCRIPT = f"""\
umask 077
{FIND_SSH_SCRIPT}own=$PAI_RUNTIME_DIR/ssh
mkdir -p "$ssh" "$own"
"""

_KEY_PAIR_SCRIPT = read_script(__package__, "key_pair.sh")

_CONFIG_SCRIPT = """\
{{
{hosts}}} >"$own/config"
"""

_NO_CLIENT_WARNING = f"""\
[ -n "$client" ] || say WARN {quote(NO_CLIENT_MESSAGE)}
"""

_SSHD_SCRIPT = read_script(__package__, "sshd.sh")

_BARRIER_CHECK_SCRIPT = """\
if [ "$reachable" = no ] || [ -z "$client" ]; then
    say ERROR 'The SSH barrier can never be passed: it needs openssh-server and openssh-client in the image, and root.'
    exit 249
fi
"""

_GATEWAY_BARRIER_CHECK_SCRIPT = """\
if [ -z "$client" ]; then
    say ERROR 'The SSH barrier can never be passed: it needs openssh-client in the image.'
    exit 249
fi
"""

_BARRIER_FUNCTIONS = read_script(__package__, "barrier_functions.sh")

_LEADER_SCRIPT = f"""\
    reach true
    reach ': >{_BARRIER_FILE}'
"""

_FOLLOWER_SCRIPT = f"""\
    until [ -e {_BARRIER_FILE} ]; do
        pause=1
        rest {{first}}
    done
"""

_BARRIER_PASSED_SCRIPT = """\
say INFO 'SSH barrier passed: all other tasks respond.'
"""
