"""Attacks that must fail: each file is one way in, tried on real parts."""
