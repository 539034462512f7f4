"""Measures the performance goals of the project on this machine, with real servers: `python -m bench`, `make bench`."""
