"""Users, groups, tokens, passwords and SSH keys."""
