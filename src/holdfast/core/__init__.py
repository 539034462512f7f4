"""Domain rules: plain data and pure functions, without I/O, clock or randomness."""
