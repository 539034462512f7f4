"""Commands for users, groups, SSH keys, notifications and logins."""
