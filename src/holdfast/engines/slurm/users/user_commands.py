"""How a command runs as another user: by setpriv if the server is root, else by sudo."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from .unix_user import UnixUser

SUDO_COMMANDS = ("sbatch", "scancel", "srun", "rm", "kill")  # what the rule for sudo must allow


def build_user_command(
    command: Sequence[str], user: UnixUser | None, path: str, *, ends_with_parent: bool = False
) -> list[str]:
    """Return the command as that user; None: the server's. `path`: where commands are looked up. `ends_with_parent`: it
    gets SIGTERM when the server ends; not by sudo, which drops that."""
    if user is not None and os.geteuid() != 0:
        program = shutil.which(command[0], path=path) or command[0]  # the rule names it by its path
        return ["sudo", "-n", "-u", user.name, "--", program, *command[1:]]
    options = ["--pdeathsig=TERM"] if ends_with_parent and shutil.which("setpriv") else []
    if user is not None:
        options += [f"--reuid={user.uid}", f"--regid={user.gid}", "--init-groups"]
    return ["setpriv", *options, "--", *command] if options else list(command)


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
