"""Python programs that mislead whoever looks into them."""

from __future__ import annotations

# Who looks for a library of this one waits until somebody writes to it.
LIBRARY_THAT_WAITS = """
import mmap, os
path = os.path.abspath("libpython3.11.so.1.0")
with open(path, "wb") as file:
    file.write(bytes(8192))
with open(path, "rb") as file:
    kept = mmap.mmap(file.fileno(), 8192, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
os.unlink(path)
for planted in (path, path + " (deleted)"):
    os.mkfifo(planted)
"""
