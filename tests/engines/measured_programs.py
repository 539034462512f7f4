"""Programs of known appetite, for tasks whose figures are checked. Each prints a line that begins with `up` when it has
used what it uses, and stays."""

from __future__ import annotations


def task(program: str) -> str:
    """A script that runs a Python program."""
    return f"exec python3 - <<'PROGRAM'\n{program}\nPROGRAM\n"


# Once a place says so; half of it in a child that has ended. Prints what the kernel says it was, before and after.
BURNS = """
import os, resource, socket, time
def tell(word):
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(word, sum(each.ru_utime + each.ru_stime for each in used), flush=True)
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
tell("up")
with socket.create_connection(("127.0.0.1", PORT)) as line:
    line.sendall(b"!")
    line.recv(1)
if not os.fork():
    burn(0.7)
    os._exit(0)
os.wait()
burn(0.7)
tell("done")
time.sleep(600)
"""

# In all, with what it cost to begin.
BURNS_AND_ENDS = """
import resource, time
while time.process_time() < 0.6: pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, flush=True)
"""

# With children that have the same pages in their memory.
FILLS = """
import os, time
held = bytearray(b"x") * AMOUNT
for _ in range(3):
    if not os.fork(): time.sleep(600)
print("up", flush=True)
time.sleep(600)
"""

# The writing is done by a child that has ended.
WRITES_AND_READS = """
import os, time
def write(path):
    with open(path, "wb") as file:
        for _ in range(AMOUNT // 2**20): file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
if not os.fork():
    write("file")
    os._exit(0)
os.wait()
with open("file", "rb") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    while file.read(2**20): pass
print("up", flush=True)
time.sleep(600)
"""

# To a place that says when to go on: sends SENT, receives RECEIVED, closes; then the same again, and keeps it open.
TALKS = """
import socket, time
def talk(kept):
    with socket.create_connection((HOST, PORT)) as line:
        line.sendall(b"!")
        line.recv(1)
        line.sendall(bytes(SENT))
        left = RECEIVED
        while left: left -= len(line.recv(min(left, 2**16)))
        if kept:
            print("up", flush=True)
            time.sleep(600)
talk(False)
talk(True)
"""


def burns(port: int) -> str:
    return task(BURNS.replace("PORT", str(port)))


def fills(amount: int) -> str:
    return task(FILLS.replace("AMOUNT", str(amount)))


def writes_and_reads(amount: int) -> str:
    return task(WRITES_AND_READS.replace("AMOUNT", str(amount)))


def talks(host: str, port: int, *, sent: int, received: int) -> str:
    program = TALKS.replace("HOST", repr(host)).replace("PORT", str(port))
    return task(program.replace("SENT", str(sent)).replace("RECEIVED", str(received)))
