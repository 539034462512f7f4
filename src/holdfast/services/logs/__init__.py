"""Logs: reading, following, searching and signed links."""
