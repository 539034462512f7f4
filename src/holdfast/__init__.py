"""Holdfast: run batch jobs, see why they wait or fail, and get inside when they break."""

__version__ = "0.1.0"
