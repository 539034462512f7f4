"""Scheduling: which job runs where and when, and why the others wait."""
