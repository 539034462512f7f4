"""Who comes to the port: with and without the token, one after the other, by netcat."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from .debugged import TIMEOUT, Bench, Client, Program

WAITS = "x = 5\ny = 6\nprint('end')\n"
BUSY = """\
import sys
print('running', flush=True)
while not sys.stdin.readline().startswith('end'):
    pass
seen = 1
print('end')
"""


def say(program: Program, line: str) -> None:
    assert program.process.stdin
    program.process.stdin.write(line.encode() + b"\n")
    program.process.stdin.flush()


@pytest.mark.release
def test_a_wrong_token(desk: Bench) -> None:
    program = desk.debug(WAITS)
    client = Client(program.port())
    for _ in range(3):
        client.wait_for("Token: ")
        client.send("guess")
        client.wait_for("That is not the token.")
    assert client.rest() == " Look for it on the job's page, or in the log.\n"
    assert "(Pdb)" in program.client().prompt()


def test_a_token_after_a_wrong_one(desk: Bench) -> None:
    program = desk.debug(WAITS)
    client = Client(program.port())
    client.wait_for("Token: ")
    client.send("guess")
    client.wait_for("Token: ")
    client.send(program.token() + "\r")
    client.prompt()


def test_tokens_differ(desk: Bench) -> None:
    first, second = desk.debug(WAITS), desk.start("-m", "paipdb", "train.py")
    assert first.token() != second.token()


@pytest.mark.parametrize("word", ["off", "0", "no", "OFF"])
def test_no_token(desk: Bench, word: str) -> None:
    program = desk.debug(WAITS, env={"DEBUG_TOKEN": word})
    assert Client(program.port()).prompt().startswith("> ")
    assert "token" not in program.stderr
    assert desk.note()["token"] == ""


def test_a_token_of_ones_own(desk: Bench) -> None:
    assert desk.debug(WAITS, env={"DEBUG_TOKEN": "my-own-token"}).token() == "my-own-token"


def test_a_token_that_is_too_short(desk: Bench) -> None:
    program = desk.debug(WAITS, env={"DEBUG_TOKEN": "short"})
    assert len(program.token()) >= 12
    assert "DEBUG_TOKEN is shorter than 8 characters" in program.stderr


def test_leaving_and_coming_back(desk: Bench) -> None:
    program = desk.debug(WAITS)
    client = program.client()
    client.prompt()
    client.do("n")
    client.close()
    program.wait_for("waiting at train.py:2", count=1)
    again = program.client(2)
    assert again.prompt() == f"> {desk.folder}/train.py(2)<module>()\n-> y = 6\n(Pdb) "
    assert "5" in again.do("p x")
    again.send("c")
    assert program.ends() == 0


def test_a_program_that_runs_on_after_its_client(desk: Bench) -> None:
    program = desk.debug(BUSY)
    client = program.client()
    client.prompt()
    client.send("c")
    program.wait_for("running", "stdout")
    client.close()
    say(program, "end")
    assert program.ends() == 0
    assert program.stdout == "running\nend\n"


def test_coming_back_while_it_runs(desk: Bench) -> None:
    program = desk.debug(BUSY)
    client = program.client()
    client.prompt()
    client.do("b 5")
    client.send("c")
    program.wait_for("running", "stdout")
    client.close()
    again = come_back(program)
    again.wait_for("The program is running.")
    say(program, "end")
    assert "train.py(5)" in again.prompt()


def come_back(program: Program) -> Client:
    """The one before may not have been missed yet."""
    while True:
        client = Client(program.port())
        if client.wait_for(" ").startswith("Token:"):
            client.send(program.token())
            return client
        client.close()


def test_a_second_client_is_told_so(desk: Bench) -> None:
    program = desk.debug(WAITS)
    client = program.client()
    client.prompt()
    other = Client(program.port())
    assert re.fullmatch(
        r"Another client is at this debugger, from 127.0.0.1:\d+ since [\d:]+ UTC\. Try again later\.\n", other.rest()
    )
    assert "5" in client.do("n") + client.do("p x")


@pytest.mark.parametrize("line", ["interrupt", "foo\ninterrupt", "\x03"])
def test_interrupting(desk: Bench, line: str) -> None:
    program = desk.debug("import time\nwhile True:\n    time.sleep(300)\n")
    client = program.client()
    client.prompt()
    client.send("c")
    client.close()
    client = come_back(program)
    client.wait_for("stop it now.\n")
    client.send(line)
    assert re.search(r"train\.py\([23]\)<module>", client.prompt())  # it may not sleep yet
    client.send("q")
    assert program.ends() == 2


def test_interrupting_leads_on_by_steps(desk: Bench) -> None:
    program = desk.debug("print('running', flush=True)\nx = 0\nwhile True:\n    x += 1\n    x -= 1\n")
    client = program.client()
    client.prompt()
    client.send("c")
    program.wait_for("running", "stdout")
    client.send("interrupt")
    first = client.prompt()
    assert client.do("n") != first
    assert client.do("s") != first
    client.send("c")
    client.send("interrupt")
    client.prompt()


def test_lines_sent_ahead(desk: Bench) -> None:
    """As scripts do, which are gone before the program reads."""
    program = desk.debug("x = 1\nfor x in range(3):\n    pass\nprint(x)\n")
    client = Client(program.port())
    client.send("\n".join([program.token(), "b 4", "c", "p x + 40", "x = 9", "c"]))
    client.socket.shutdown(1)
    assert "42" in client.rest()
    assert program.ends() == 0
    assert program.stdout == "9\n"


def test_a_flood_of_lines(desk: Bench) -> None:
    program = desk.debug(BUSY, env={"DEBUG_TOKEN": "off"})
    client = Client(program.port())
    client.prompt()
    client.send("c")
    program.wait_for("running", "stdout")
    client.send("p 1\n" * 2000)
    client.wait_for("Too many lines at a time.")
    say(program, "end")
    assert program.ends() == 0


def test_an_endless_line(desk: Bench) -> None:
    program = desk.debug(WAITS, env={"DEBUG_TOKEN": "off"})
    client = Client(program.port())
    client.prompt()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        client.socket.sendall(b"x" * 10_000_000)
    program.wait_for("waiting at", count=2)
    Client(program.port(2)).prompt()


def test_strangers_do_not_keep_others_out(desk: Bench) -> None:
    program = desk.debug(WAITS)
    foreign_processes = []
    for _ in range(12):
        foreign_processes.append(Client(program.port()))
        foreign_processes[-1].wait_for("Token: ")
    assert foreign_processes[0].rest() == ""
    program.client().prompt()
    for stranger in foreign_processes:
        stranger.close()


def test_letters_of_all_kinds(desk: Bench) -> None:
    client = desk.debug("x = 'größe 大小'\ny = 1\n", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}).client()
    client.prompt()
    client.do("n")
    assert "größe 大小" in client.do("print(x)")
    client.socket.sendall(b"p '\xff\xfe'\n")
    client.prompt()


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(event) for event in re.findall("\x1e(.*)\n", text)]


def test_events_for_programs(desk: Bench) -> None:
    program = desk.debug("def f(x):\n    return x\nf(1)\nf(2)\n")
    client = Client(program.port())
    client.send(f"{program.token()}\n#holdfast json")
    (first,) = events(client.prompt())[-1:]
    path = f"{desk.folder}/train.py"
    assert first == {
        "event": "prompt",
        "file": path,
        "line": 1,
        "function": "<module>",
        "stack": [{"file": path, "line": 1, "function": "<module>"}],
        "index": 0,
        "source": [1, ["def f(x):", "    return x", "f(1)", "f(2)"]],
    }
    client.do("b 2")
    told = client.do("c")
    assert [event["event"] for event in events(told)] == ["running", "prompt"]
    assert [frame["line"] for frame in events(told)[-1]["stack"]] == [3, 2]
    assert events(client.do("u"))[-1]["index"] == 0
    client.send("q")
    assert events(client.rest())[-1] == {"event": "end", "code": 2}


def test_events_asked_for_later(desk: Bench) -> None:
    program = desk.debug(WAITS)
    client = program.client()
    assert events(client.prompt()) == []
    assert events(client.do("#holdfast json"))[0]["line"] == 1


def test_events_are_of_bounded_size(desk: Bench) -> None:
    long = "x" * 5000
    program = desk.debug(
        f"def deep(n):\n    if n:\n        return deep(n - 1)\n    return '{long}'\ndeep(200)\n",
        env={"DEBUG_TOKEN": "off"},
    )
    client = Client(program.port())
    client.send("#holdfast json\nb 4\nc")
    for _ in range(4):
        told = client.prompt()
    last = events(told)[-1]
    assert len(last["stack"]) == 50
    assert last["index"] == 49
    assert max(map(len, last["source"][1])) == 300


needs_netcat = pytest.mark.skipif(not shutil.which("nc"), reason="netcat is not installed")


@needs_netcat
def test_netcat(desk: Bench) -> None:
    program = desk.debug("x = 20\nprint(x)\n")
    command = ["nc", "-N", "127.0.0.1", str(program.port())]
    typed = "".join(f"{line}\n" for line in [program.token(), "n", "x += 1", "p x * 2", "c"])
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("Token: > ")
    assert "(Pdb) 42\n(Pdb) The program finished.\n" in done.stdout
    assert program.ends() == 0
    assert program.stdout == "21\n"


@needs_netcat
def test_netcat_line_by_line(desk: Bench) -> None:
    program = desk.debug("x = 20\nprint(x)\n")
    netcat = subprocess.Popen(
        ["nc", "127.0.0.1", str(program.port())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert netcat.stdin
    assert netcat.stdout
    netcat.stdin.write(program.token() + "\r\n")
    netcat.stdin.flush()
    assert netcat.stdout.readline().startswith("Token: > ")
    netcat.stdin.write("q\n")
    netcat.stdin.flush()
    assert program.ends() == 2
    netcat.stdin.close()  # it waits for that as well
    assert netcat.stdout.read().endswith("The program ends with exit code 2.\n")
    assert netcat.wait(TIMEOUT) == 0
    netcat.stdout.close()
