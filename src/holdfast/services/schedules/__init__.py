"""Schedules: recurrence, due runs and why the next run waits."""
