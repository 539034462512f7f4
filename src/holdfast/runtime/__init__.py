"""Standalone programs that run beside the server or inside tasks."""
