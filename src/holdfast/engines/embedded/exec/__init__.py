"""Commands and connections inside running and held tasks."""
