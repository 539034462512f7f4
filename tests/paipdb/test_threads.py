"""Several threads, and several processes of a task."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from .debugged import TIMEOUT, Bench, Client, notes_in

THREADS = """\
import paipdb, threading
def work(name):
    mine = name
    paipdb.settrace()
    print("went on", mine)
threads = [threading.Thread(target=work, args=(name,), name=name) for name in ("one", "two", "three")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all")
"""


def test_threads_take_turns_at_one_port(desk: Bench) -> None:
    program = desk.run(THREADS)
    client = program.client()
    client.prompt()
    names = []
    for _ in range(3):
        names += re.findall("'(one|two|three)'", client.do("p mine"))
        if len(names) < 3:
            assert "[now in thread " in client.do("c")
    client.send("c")
    assert program.ends() == 0
    assert sorted(names) == ["one", "three", "two"]
    assert sorted(program.stdout.splitlines()) == ["all", "went on one", "went on three", "went on two"]
    assert program.stderr.count("paipdb is running on") == 1


def test_steps_stay_in_their_thread(desk: Bench) -> None:
    client = desk.run(THREADS.replace("    print(", "    x = 1\n    x = 2\n    x = 3\n    print(")).client()
    client.prompt()
    name = client.do("p mine")
    for _ in range(3):
        client.do("n")
        assert client.do("p mine") == name


def test_a_step_over_the_end_of_others(desk: Bench) -> None:
    """Whoever waits for threads that wait for the prompt must not keep it."""
    program = desk.run(
        "import paipdb, threading\n"
        "def work():\n    x = 1\n    paipdb.settrace()\n    x = 2\n"
        "thread = threading.Thread(target=work, name='other')\n"
        "paipdb.settrace()\n"
        "thread.start(); thread.join()\n"
        "print('joined')\n"
    )
    client = program.client()
    client.prompt()
    while "[now in thread other]" not in client.do("n"):
        pass
    assert "1" in client.do("p x")
    client.send("c")
    assert "[now in thread MainThread]" in client.prompt()
    client.send("c")
    assert program.ends() == 0


def test_nobody_comes_to_any_thread(desk: Bench) -> None:
    program = desk.run(THREADS, env={"DEBUG_TIMEOUT": "0.3"})
    assert program.ends() == 0
    assert program.stderr.count("waiting at") == 1


def test_quitting_in_a_thread_ends_the_program(desk: Bench) -> None:
    program = desk.run(THREADS)
    client = program.client()
    client.prompt()
    client.send("q")
    assert program.ends() == 2
    assert "all" not in program.stdout
    assert list(desk.notes.iterdir()) == []


def test_breakpoints_are_for_threads_as_well(desk: Bench) -> None:
    program = desk.debug(
        "import threading\n"
        "def work(n):\n"
        "    x = n + 1\n"
        "    return x\n"
        "for n in range(2):\n"
        "    thread = threading.Thread(target=work, args=(n,), name='worker')\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    client = program.client()
    client.prompt()
    client.do("b 4")
    assert "train.py(4)work()" in client.do("c")
    assert "1" in client.do("p x")
    assert "train.py(4)work()" in client.do("c")
    assert "2" in client.do("p x")
    client.send("c")
    assert program.ends() == 0


def test_what_other_threads_print_during_a_command_is_the_programs(desk: Bench) -> None:
    program = desk.debug(
        "import threading, time\n"
        "go, gone = threading.Event(), threading.Event()\n"
        "def work():\n"
        "    go.wait()\n"
        "    print('from the thread', flush=True)\n"
        "    gone.set()\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "x = 1\n"
    )
    client = program.client()
    client.prompt()
    client.do("until 9")
    assert client.do("go.set() or print('from me', gone.wait())") == "from me True\n(Pdb) "
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "from the thread\n"


PEERS = """\
import subprocess, sys
workers = [subprocess.Popen([sys.executable, "worker.py", str(rank)]) for rank in range(3)]
print("pids", *[worker.pid for worker in workers], flush=True)
print("codes", [worker.wait() for worker in workers])
"""
WORKER = """\
import paipdb, sys
rank = int(sys.argv[1])
if rank == 1:
    paipdb.settrace()
    x = 1
    sys.exit()
sys.stdin.readline()
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for_state(pids: list[int], stopped: bool) -> None:
    until = time.monotonic() + TIMEOUT
    while any((state(pid) == "T") != stopped for pid in pids):
        assert time.monotonic() < until, [state(pid) for pid in pids]
        time.sleep(0.01)


def test_peers_stand_while_one_is_looked_at(desk: Bench) -> None:
    desk.write("worker.py", WORKER)
    program = desk.run(PEERS, env={"DEBUG_HOLD_PEERS": "1"})
    pids = [int(pid) for pid in program.wait_for(r"pids (\d+) (\d+) (\d+)\n", "stdout")[0].groups()]
    client = program.client()
    client.prompt()
    wait_for_state([pids[0], pids[2]], stopped=True)
    client.send("c")
    wait_for_state([pids[0], pids[2]], stopped=False)
    assert program.process.stdin
    program.process.stdin.close()
    assert program.ends() == 0
    assert "codes [0, 0, 0]" in program.stdout


def test_peers_go_on_when_the_one_is_killed(desk: Bench) -> None:
    desk.write("worker.py", WORKER)
    program = desk.run(PEERS, env={"DEBUG_HOLD_PEERS": "1"})
    pids = [int(pid) for pid in program.wait_for(r"pids (\d+) (\d+) (\d+)\n", "stdout")[0].groups()]
    program.client().prompt()
    wait_for_state([pids[0], pids[2]], stopped=True)
    os.kill(pids[1], signal.SIGKILL)
    wait_for_state([pids[0], pids[2]], stopped=False)
    assert program.process.stdin
    program.process.stdin.close()
    assert program.ends() == 0
    assert "codes [0, -9, 0]" in program.stdout


def test_peers_that_all_stop_get_their_turns(desk: Bench) -> None:
    """Whoever is at its prompt can be talked to; others come to theirs when it has gone on."""
    desk.write("worker.py", "import paipdb, sys\nrank = sys.argv[1]\npaipdb.settrace()\nx = 1\n")
    program = desk.run(PEERS, env={"DEBUG_HOLD_PEERS": "1", "DEBUG_TOKEN": "eight-or-more"})
    seen: set[int] = set()
    ranks = set()
    for _ in range(3):
        client = next_waiting(desk, seen)
        client.prompt()
        ranks |= set(re.findall(r"'(\d)'", client.do("p rank")))
        client.send("c")
    assert program.ends() == 0
    assert "codes [0, 0, 0]" in program.stdout
    assert ranks == {"0", "1", "2"}


def next_waiting(desk: Bench, seen: set[int]) -> Client:
    """A process that waits and is not made to stand itself."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        for note in notes_in(desk.notes):
            if note["pid"] not in seen and note["waits"] and state(note["pid"]) != "T":
                client = Client(note["port"])
                client.wait_for("Token: ")
                client.send("eight-or-more")
                seen.add(note["pid"])
                return client
        time.sleep(0.01)
    raise AssertionError("nobody waits")
