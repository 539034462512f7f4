"""Access to running and held tasks: exec, SSH logins, debuggers, stack dumps."""
