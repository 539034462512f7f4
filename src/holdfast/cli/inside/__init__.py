"""Commands that connect to running and held tasks."""
