"""Commands about users, groups, keys, notifications and the login."""
