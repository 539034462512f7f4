"""Paths inside a sandbox, shared by the engine and its programs."""

from __future__ import annotations

HOME = "/home/jovyan"
OWN = "/run/holdfast"  # no link must be here: bubblewrap would follow it out of the sandbox
SCRIPT = f"{OWN}/script"
ENTRY = f"{OWN}/entry"
HOLD = f"{OWN}/hold"
NOTES = f"{OWN}/notes"
LIBRARY = f"{OWN}/lib"
CGROUP_POINT = "/sys/fs/cgroup"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
