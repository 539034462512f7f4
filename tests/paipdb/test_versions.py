"""Old and new Pythons: as many as are here run it; the syntax of the oldest is watched besides."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .debugged import FOLDER, Bench, Client, bench, interpreters

SOURCES = sorted((Path(FOLDER) / "paipdb").glob("*.py"))

TOUR = """\
import paipdb, sys, threading
def work(n):
    total = 0
    for i in range(n):
        total += i
    return total
print("work", work(4))
def in_thread():
    x = "of the thread"
    paipdb.settrace()
    print("thread went on")
thread = threading.Thread(target=in_thread, name="other")
thread.start()
thread.join()
print("ready", flush=True)
sys.stdin.readline()
1 / 0
"""


INTERPRETERS = interpreters()
_MINORS = sorted(int(version.split(".")[1]) for version in INTERPRETERS)
OLDEST_AND_NEWEST = {f"3.{minor}" for minor in (_MINORS[0], _MINORS[-1])}


@pytest.fixture(
    params=[
        pytest.param(version, marks=[] if version in OLDEST_AND_NEWEST else pytest.mark.release)
        for version in INTERPRETERS
    ]
)
def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, INTERPRETERS[request.param]) as made:
        yield made


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_syntax_is_that_of_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


def test_it_needs_nothing_but_python() -> None:
    """Not even what an installation brings: a copy of the folder is enough."""
    code = "import sys, paipdb, paipdb.program; print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {FOLDER!r}); {code}"]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert loaded - {"paipdb"} <= set(sys.stdlib_module_names) | {"__main__"}


def test_a_tour(any_desk: Bench) -> None:
    program = any_desk.debug(TOUR)
    client = program.client()
    client.prompt()
    client.do("b 5, i == 2")
    assert "train.py(5)work()" in client.do("c")
    assert "(1, 2)" in client.do("p total, i")
    assert "train.py(4)work()" in client.do("n")
    where = client.do("w")
    assert where.count("train.py(") == 2
    assert "paipdb" not in where
    assert "--Return--" in client.do("r")
    assert "6" in client.do("retval")
    assert "Deleted breakpoint 1" in client.do("clear 1")
    client.send("interact")
    client.wait_for(">>> ")
    client.send("total * 7")
    assert client.wait_for(">>> ") == "42\n>>> "
    client.do("exit()")
    assert "[now in thread other]" in client.do("c")
    assert "of the thread" in client.do("p x")
    client.send("c")
    program.wait_for("ready", "stdout")
    client.send("interrupt")
    assert re.search(r"train\.py\(1[56]\)<module>", client.prompt())  # it may not read yet
    client.send("c")
    assert program.process.stdin
    program.process.stdin.write(b"\n")
    program.process.stdin.flush()
    assert "ZeroDivisionError" in client.prompt()
    assert "(17)" in client.do("w")
    client.send("q")
    assert program.ends() == 1
    assert program.stdout == "work 6\nthread went on\nready\n"
    assert list(any_desk.notes.iterdir()) == []


RARE = """\
def double(x):
    y = x * 2
    return y
total = 0
for i in range(3):
    total += double(i)
print("total", total)
"""


@pytest.mark.release
def test_commands_that_are_rarely_typed(any_desk: Bench) -> None:
    program = any_desk.debug(RARE)
    client = program.client()
    client.prompt()
    assert "Breakpoint 1" in client.do("tbreak 6")
    assert "Deleted breakpoint 1" in client.do("c")
    assert "display total: 0" in client.do("display total")
    assert "return y" in client.do("source double")
    assert "Function" in client.do("whatis double")
    client.do("alias more p %1 + 1")
    assert "42" in client.do("more 41")
    client.do("unalias more")
    client.do("!extra = 40")
    assert "42" in client.do("pp extra + 2")
    client.do("b double")
    client.do("condition 2 x == 2")
    assert "x == 2" in client.do("b")
    client.do("c")
    assert "x = 2" in client.do("a")
    assert "train.py(6)<module>" in client.do("u")
    client.do("d")
    client.do("disable 2")
    assert "train.py(3)double()" in client.do("until 3")
    client.do("r")
    assert "[old: 0]" in client.do("n")
    client.do("undisplay total")
    assert "train.py(4)<module>" in client.do("j 4")
    assert "total += double(i)" in client.do("ll")
    client.send("debug double(4)")
    client.wait_for("((Pdb)) ")
    client.send("q")
    client.prompt()
    client.do("clear 2")
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "total 6\n"


def test_steps_to_the_end(any_desk: Bench) -> None:
    program = any_desk.debug("x = 1\ny = 2\n", env={"DEBUG_TOKEN": "off"})
    client = Client(program.port())
    client.prompt()
    for _ in range(2):
        client.do("n")
    client.send("n\nn\nn\nn")
    told = client.rest()
    assert told.endswith("The program finished.\n")
    assert "paipdb/" not in told
    assert program.ends() == 0


def test_steps_after_an_interrupt(any_desk: Bench) -> None:
    program = any_desk.debug("print('running', flush=True)\nx = 0\nwhile True:\n    x += 1\n    x -= 1\n")
    client = program.client()
    client.prompt()
    client.send("c")
    program.wait_for("running", "stdout")
    client.send("interrupt")
    first = client.prompt()
    for command in ("n", "s", "n"):
        assert "train.py(" in client.do(command)
    assert client.do("n") != first
    client.do("b 4")
    assert "train.py(4)" in client.do("c")
    client.send("q")
    assert program.ends() == 2


def test_a_stop_while_it_steps(any_desk: Bench) -> None:
    program = any_desk.run(
        "import paipdb\ndef f():\n    paipdb.settrace()\n    y = 2\n    y = 3\n"
        "paipdb.settrace()\nx = 1\nf()\nprint('end')\n"
    )
    client = program.client()
    client.prompt()
    told = ""
    while "f()\n" not in told:
        told = client.do("n")
        assert "train.py(" in told
    assert "train.py(" in client.do("n")
    assert "train.py(" in client.do("s")
    client.send("c")
    assert program.ends() == 0


def test_an_endless_command(any_desk: Bench) -> None:
    program = any_desk.debug("x = 1\nprint(x)\n")
    client = program.client()
    client.prompt()
    client.do("n")
    for command in ("while True: x += 1", "import time; time.sleep(300)"):
        client.send(f"exec(\"print('begun')\\n{command}\")")
        client.wait_for("begun\n")
        client.socket.sendall(b"\x03")
        assert "KeyboardInterrupt" in client.prompt()
    assert "('x', True)" in client.do("p 'x', x > 0")
    client.send("c")
    assert program.ends() == 0


def test_commands_of_a_breakpoint(any_desk: Bench) -> None:
    program = any_desk.debug("for i in range(3):\n    x = i * 10\nprint(x)\n", env={"DEBUG_TOKEN": "off"})
    client = Client(program.port())
    client.prompt()
    client.do("b 2")
    client.send("commands 1")
    client.send("silent")
    client.send("p 'at', i")
    client.send("end")
    client.prompt()
    assert "('at', 0)" in client.do("c")
    assert any_desk.note()["line"] == 2
    assert "train.py(" in client.do("n")
    client.send("commands 1")
    client.send("p 'passing', i")
    client.send("c")
    client.prompt()
    client.send("c")
    assert "('passing', 2)" in client.rest()
    assert program.ends() == 0
    assert program.stdout == "20\n"


def test_a_module_and_sys_exit(any_desk: Bench) -> None:
    any_desk.write("work/__init__.py", "")
    any_desk.write("work/train.py", "import sys\nsys.exit(int(sys.argv[1]))\n")
    program = any_desk.start("-m", "paipdb", "-m", "work.train", "9")
    client = program.client()
    client.prompt()
    client.send("c")
    assert program.ends() == 9


def test_a_forked_child(any_desk: Bench) -> None:
    program = any_desk.run(
        "import os, paipdb\npaipdb.settrace()\nchild = os.fork()\n"
        "if not child:\n    paipdb.settrace()\n    os._exit(0)\n"
        "print('child', os.waitpid(child, 0)[1])\n"
    )
    parent = program.client()
    parent.prompt()
    port = program.port()
    parent.send("c")
    child = program.client(2)
    assert program.port(2) != port
    assert "0" in child.prompt() + child.do("p child")
    child.send("c")
    assert program.ends() == 0
    assert program.stdout == "child 0\n"
