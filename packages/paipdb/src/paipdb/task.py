"""What the task's surroundings say: its ports, its address, how long to wait; and its log."""

import contextlib
import os
import re
import secrets
import socket
import sys
from typing import List, Optional, Tuple

DEFAULT_TIMEOUT = 600.0


def log(text: str) -> None:
    """One line for the job's log."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except RuntimeError:  # a signal came while the program wrote to it
            os.write(2, text.encode("utf-8", "replace") + b"\n")


def seconds_to_wait() -> float:
    """0: without end."""
    text = os.environ.get("DEBUG_TIMEOUT", "").strip()
    try:
        return max(0.0, float(text)) if text else DEFAULT_TIMEOUT
    except ValueError:
        log(f"paipdb: DEBUG_TIMEOUT is not a number of seconds: {text!r}; taking {DEFAULT_TIMEOUT:g}")
        return DEFAULT_TIMEOUT


def this_task() -> Tuple[str, str]:
    """This task's role and index, as far as they are known."""
    role = os.environ.get("PAI_CURRENT_TASK_ROLE_NAME") or os.environ.get("HOLDFAST_ROLE") or ""
    names = ("PAI_TASK_ROLE_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX", "HOLDFAST_TASK_INDEX")
    return role, next((os.environ[name] for name in names if os.environ.get(name)), "0")


def job_and_task() -> Tuple[str, str]:
    """As people name them to the platform; empty where there is none."""
    role, index = this_task()
    job = os.environ.get("HOLDFAST_JOB") or os.environ.get("PAI_JOB_NAME") or ""
    return job, os.environ.get("HOLDFAST_TASK") or (f"{role}-{index}" if role else "")


def _places() -> List[str]:
    """`role_index` as it is part of variable names: as written, and as OpenPAI's later age spelled it."""
    role, index = this_task()
    return [f"{spelling}_{index}" for spelling in (role, re.sub("[^a-z0-9]", "", role.lower()))]


def port_of_task() -> Optional[int]:
    """The port that the job asked for, by the name in DEBUG_PORT_NAME."""
    label = os.environ.get("DEBUG_PORT_NAME") or "debug"
    names = [f"PAI_PORT_LIST_{place}_{label}" for place in _places()]
    names += [f"PAI_CONTAINER_HOST_{label}_PORT_LIST", "HOLDFAST_PORT_" + re.sub("[^A-Z0-9]", "_", label.upper())]
    for name in names:
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdigit() and 0 < int(first) < 65536:
            return int(first)
    if os.environ.get("DEBUG_PORT_NAME"):
        log(f"paipdb: this task has no port named {label}; taking a free one")
    return None


def address_of_task() -> str:
    names = [f"PAI_HOST_IP_{place}" for place in _places()] + ["PAI_CURRENT_CONTAINER_IP"]
    return next((os.environ[name] for name in names if os.environ.get(name)), "") or _outward_address()


def _outward_address() -> str:
    """Where others reach this machine, by the way it would take to them; nothing is sent."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def new_token() -> str:
    """What clients must know; empty: nothing."""
    own = os.environ.get("DEBUG_TOKEN", "").strip()
    if own.lower() in ("off", "0", "no"):
        return ""
    if len(own) >= 8:
        return own
    if own:
        log("paipdb: DEBUG_TOKEN is shorter than 8 characters; making one of my own")
    return secrets.token_urlsafe(9)


def shown(file: str) -> str:
    """A file's name as people know it: relative to where the program was started."""
    with contextlib.suppress(OSError):
        here = os.path.join(os.getcwd(), "")
        return file[len(here) :] if file.startswith(here) else file
    return file
