"""Paths inside a sandbox that the engine and the programs in it agree on."""

from __future__ import annotations

HOME = "/home/jovyan"
OWN = "/run/holdfast"  # what bubblewrap lays there last must meet no link: it would follow it out of the sandbox
SCRIPT = f"{OWN}/script"
ENTRY = f"{OWN}/entry"
HOLD = f"{OWN}/hold"
NOTES = f"{OWN}/notes"
LIBRARY = f"{OWN}/lib"
CGROUP_POINT = "/sys/fs/cgroup"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
