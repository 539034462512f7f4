"""Commands that reach into running and held tasks."""
