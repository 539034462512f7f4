"""The task's environment: its names, port, address, timeout and token from variables, and its log."""

import contextlib
import os
import re
import secrets
import socket
import sys
from typing import List, Optional, Tuple

DEFAULT_TIMEOUT = 600.0  # seconds


def write_log(text: str) -> None:
    """Write one line to the job's log."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except RuntimeError:  # a signal arrived while the program was writing to it
            os.write(2, text.encode("utf-8", "replace") + b"\n")


def get_wait_timeout() -> float:
    """Return the seconds to wait for a client; 0: no limit."""
    text = os.environ.get("DEBUG_TIMEOUT", "").strip()
    try:
        return max(0.0, float(text)) if text else DEFAULT_TIMEOUT
    except ValueError:
        write_log(f"paipdb: DEBUG_TIMEOUT is not a number of seconds: {text!r}; taking {DEFAULT_TIMEOUT:g}")
        return DEFAULT_TIMEOUT


def get_role_and_index() -> Tuple[str, str]:
    """Return the role and index of this task. Defaults: no role, index 0."""
    role = os.environ.get("PAI_CURRENT_TASK_ROLE_NAME") or os.environ.get("HOLDFAST_ROLE") or ""
    names = ("PAI_TASK_ROLE_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX", "HOLDFAST_TASK_INDEX")
    return role, next((os.environ[name] for name in names if os.environ.get(name)), "0")


def get_job_and_task() -> Tuple[str, str]:
    """Return the names of the job and the task on the platform; empty if unknown."""
    role, index = get_role_and_index()
    job = os.environ.get("HOLDFAST_JOB") or os.environ.get("PAI_JOB_NAME") or ""
    return job, os.environ.get("HOLDFAST_TASK") or (f"{role}-{index}" if role else "")


def _list_role_index_spellings() -> List[str]:
    """Return `role_index` as in variable names: as in the job file, and as later versions of OpenPAI spell it."""
    role, index = get_role_and_index()
    return [f"{spelling}_{index}" for spelling in (role, re.sub("[^a-z0-9]", "", role.lower()))]


def find_task_port() -> Optional[int]:
    """Return the port that the job requested under the name in DEBUG_PORT_NAME."""
    label = os.environ.get("DEBUG_PORT_NAME") or "debug"
    names = [f"PAI_PORT_LIST_{role_index}_{label}" for role_index in _list_role_index_spellings()]
    names += [f"PAI_CONTAINER_HOST_{label}_PORT_LIST", "HOLDFAST_PORT_" + re.sub("[^A-Z0-9]", "_", label.upper())]
    for name in names:
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdigit() and 0 < int(first) < 65536:
            return int(first)
    if os.environ.get("DEBUG_PORT_NAME"):
        write_log(f"paipdb: this task has no port named {label}; taking a free one")
    return None


def get_task_address() -> str:
    names = [f"PAI_HOST_IP_{role_index}" for role_index in _list_role_index_spellings()] + ["PAI_CURRENT_CONTAINER_IP"]
    return next((os.environ[name] for name in names if os.environ.get(name)), "") or _get_outbound_address()


def _get_outbound_address() -> str:
    """Return the source address of this machine's packets to other networks. Nothing is sent."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def get_or_create_token() -> str:
    """Return the token that clients must send: from DEBUG_TOKEN, or a new one. Empty: none is required."""
    configured = os.environ.get("DEBUG_TOKEN", "").strip()
    if configured.lower() in ("off", "0", "no"):
        return ""
    if len(configured) >= 8:
        return configured
    if configured:
        write_log("paipdb: DEBUG_TOKEN is shorter than 8 characters; making one of my own")
    return secrets.token_urlsafe(9)


def shorten_path(path: str) -> str:
    """Return the path relative to the working folder, if the file is below it."""
    with contextlib.suppress(OSError):
        prefix = os.path.join(os.getcwd(), "")
        return path[len(prefix) :] if path.startswith(prefix) else path
    return path
