"""How a command runs as another user: by setpriv if the server is root, else by sudo."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence

from holdfast.core.errors import sanitize_output
from holdfast.core.messages import msg

from .unix_user import UnixUser

SUDO_COMMANDS = ("sbatch", "scancel", "srun", "rm", "kill")  # what the rule for sudo must allow


def build_user_command(
    command: Sequence[str], user: UnixUser | None, path: str, *, ends_with_parent: bool = False
) -> list[str]:
    """Return the command as that user; None: the server's. `path`: where commands are looked up. `ends_with_parent`: it
    gets SIGTERM when the server ends; not by sudo, which drops that."""
    if user is not None and os.geteuid() != 0:
        program = shutil.which(command[0], path=path) or command[0]  # the rule names it by its path
        # By its number: the user may have been renamed since, or another one may have its name.
        return ["sudo", "-n", "-u", f"#{user.uid}", "--", program, *command[1:]]
    options = ["--pdeathsig=TERM"] if ends_with_parent and shutil.which("setpriv") else []
    if user is not None:
        groups = "--init-groups" if is_known_user(user) else "--clear-groups"  # its jobs can be stopped all the same
        options += [f"--reuid={user.uid}", f"--regid={user.gid}", groups]
    return ["setpriv", *options, "--", *command] if options else list(command)


def is_known_user(user: UnixUser) -> bool:
    """Return whether this machine still has a user with that uid. Blocking."""
    try:
        pwd.getpwuid(user.uid)
    except KeyError:
        return False
    return True


def is_denied_by_sudo(error: str) -> bool:
    """Return whether sudo, and not the command that it should run, has printed this."""
    return error.startswith(("sudo:", "Sorry, user ", "We trust you")) or "\nsudo: " in error


def describe_denied_user(user: UnixUser, error: str) -> str:
    return msg(
        "sudo does not let the server run commands as the Unix user {name} ({why}). Ask an admin to add the user to "
        "the group of the rule for sudo.",
        name=user.name,
        why=sanitize_output(error.encode()).removeprefix("sudo: "),
    )


def get_user_variables(user: UnixUser) -> dict[str, str]:
    """Return the variables of the user; sudo sets its own. Tasks get another home anyway."""
    return {"HOME": "/", "USER": user.name, "LOGNAME": user.name}


def find_signal_target(pid: int) -> int:
    """Return the process that a signal is for: the command of sudo, which itself belongs to root."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        return pid
    return find_signal_target(int(children[0])) if children else pid
