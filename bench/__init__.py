"""Measures what the project promises, on this machine, with a real server: `python -m bench` or `make bench`."""
