"""Samples of tasks' resource usage."""
