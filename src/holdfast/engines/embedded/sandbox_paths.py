"""Paths inside a sandbox, shared by the engine and its programs."""

from __future__ import annotations

HOME_PATH = "/home/jovyan"
HOLDFAST_PATH = "/run/holdfast"  # no link must be here: bubblewrap would follow it out of the sandbox
SCRIPT_PATH = f"{HOLDFAST_PATH}/script"
ENTRY_PATH = f"{HOLDFAST_PATH}/entry"
HOLD_SCRIPT_PATH = f"{HOLDFAST_PATH}/hold"
NOTES_PATH = f"{HOLDFAST_PATH}/notes"
USER_SWITCH_PATH = f"{HOLDFAST_PATH}/run-as-user"
LIBRARY_PATH = f"{HOLDFAST_PATH}/lib"
CGROUP_PATH = "/sys/fs/cgroup"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
