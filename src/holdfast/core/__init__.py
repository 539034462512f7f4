"""The rules. Plain data and pure functions: no I/O, no clock, no randomness."""
