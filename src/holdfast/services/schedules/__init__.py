"""Schedules: recurrence, due runs and the reasons why a run waits."""
