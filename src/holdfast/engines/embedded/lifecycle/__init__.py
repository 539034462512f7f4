"""The life of a task on this machine: its folder, start, logs, end and removal."""
