"""A program that becomes another user and executes its arguments, for tasks of images with a user. Pure.

Its steps are setgroups, setresgid, setresuid, capset (no capability stays, not even an inheritable one) and
execve(argv[1], argv + 1, envp). It can contain the environment too, so that whatever starts it as root has no variable
of the job.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import accumulate

from .static_program import (
    BASE,
    HEADERS_SIZE,
    SUPPORTED_MACHINES,
    MachineCode,
    align,
    build_headers,
    get_machine_code,
    join_steps,
    pack_capabilities,
)
from .task_user import TaskUser

_FAILURE_MESSAGE = b"holdfast: cannot run the command as the image's user.\n"
_NO_CAPABILITIES = pack_capabilities(0)


def supports_user_switch(machine: str) -> bool:
    return machine in SUPPORTED_MACHINES


def build_user_switch(user: TaskUser, machine: str, env: Mapping[str, str] | None = None) -> bytes:
    """Return the executable for a supported machine, as `platform.machine` names it. `env`: the environment of what it
    executes; None: its own."""
    code = get_machine_code(machine)
    data_at = align(HEADERS_SIZE + len(_build_code(code, user, 0, env is not None)))
    address = BASE + data_at
    body = _build_code(code, user, address, env is not None).ljust(data_at - HEADERS_SIZE, b"\0")
    body += _build_data(user) + _build_env(env or {}, address + len(_build_data(user)))
    return build_headers(code.machine, HEADERS_SIZE + len(body)) + body


def _build_data(user: TaskUser) -> bytes:
    groups = struct.pack(f"<{len(user.groups)}I", *user.groups)
    data = _NO_CAPABILITIES + _FAILURE_MESSAGE + groups
    return data.ljust(align(len(data)), b"\0")


def _build_env(env: Mapping[str, str], address: int) -> bytes:
    """Return the variables for execve, at this address: pointers, a null pointer, and the texts."""
    texts = [f"{name}={value}".encode("utf-8", "surrogateescape") + b"\0" for name, value in env.items()]
    first = address + 8 * (len(texts) + 1)
    starts = accumulate((len(text) for text in texts), initial=first)
    pointers = [start for start, _ in zip(starts, texts, strict=False)]
    return struct.pack(f"<{len(pointers) + 1}Q", *pointers, 0) + b"".join(texts)


def _build_code(code: MachineCode, user: TaskUser, data: int, has_env: bool) -> bytes:
    """Return the instructions; their length does not depend on the address of the data."""
    text = data + len(_NO_CAPABILITIES)
    steps = [
        code.call("setgroups", len(user.groups), text + len(_FAILURE_MESSAGE)),
        code.call("setresgid", user.gid, user.gid, user.gid),
        code.call("setresuid", user.uid, user.uid, user.uid),
        code.call("capset", data, data + 8),
    ]
    env = data + len(_build_data(user)) if has_env else None
    tail = code.load_arguments(env) + code.call("execve")
    return join_steps(code, steps, tail, (text, len(_FAILURE_MESSAGE)))
