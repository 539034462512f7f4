"""Readings, samples and usage of tasks."""
