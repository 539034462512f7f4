"""Stops that a program asks for itself."""

from __future__ import annotations

import os
import re
import signal

from tests.free_ports import reserve_port

from .debugged import Bench, Client

LOOP = """\
import paipdb
for step in range(3):
    paipdb.settrace()
    print("step", step)
print("done")
"""


def test_it_stops_where_it_says(desk: Bench) -> None:
    program = desk.run("x = 41\nimport paipdb; paipdb.settrace()\nx += 1\nprint(x)\n")
    client = program.client()
    assert "train.py(" in client.prompt()
    assert "41" in client.do("p x")
    client.do("x = 10")
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "11\n"


def test_several_stops_share_a_port_and_a_client(desk: Bench) -> None:
    program = desk.run(LOOP)
    client = program.client()
    client.prompt()
    assert "1" in client.do("c") + client.do("p step")
    client.do("c")
    assert "2" in client.do("p step")
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "step 0\nstep 1\nstep 2\ndone\n"
    assert program.stderr.count("paipdb is running on") == 1
    assert program.stderr.count("waiting at") == 1


def test_the_name_openpai_gave_it_and_a_number(desk: Bench) -> None:
    port = reserve_port()
    program = desk.run(f"import paipdb\npaipdb.set_trace(port={port})\nprint('on')\n")
    assert program.port() == port
    program.wait_for(f"paipdb is running on .*:{port}\n")
    client = program.client()
    client.prompt()
    client.send("c")
    assert program.ends() == 0


def test_another_number_is_heard_as_well(desk: Bench) -> None:
    first, second = reserve_port(), reserve_port()
    program = desk.run(f"import paipdb\npaipdb.settrace({first})\nx = 1\npaipdb.settrace({second})\nx = 2\n")
    client = program.client()
    client.prompt()
    client.send("c")
    client.prompt()
    client.close()
    program.wait_for("waiting at", count=2)
    other = Client(second)
    other.wait_for("Token: ")
    other.send(program.token())
    assert "1" in other.prompt() + other.do("p x")
    other.send("c")
    assert program.ends() == 0


def test_stepping_on_and_breakpoints_last(desk: Bench) -> None:
    program = desk.run(
        "import paipdb\ndef f(x):\n    y = x + 1\n    return y\npaipdb.settrace()\nf(1)\nf(2)\nprint('end')\n"
    )
    client = program.client()
    client.prompt()
    client.do("b f")
    assert "train.py(3)f()" in client.do("c")
    assert "train.py(4)f()" in client.do("n")
    assert "--Return--" in client.do("n")
    assert "train.py(3)f()" in client.do("c")
    assert "2" in client.do("p x")
    client.send("c")
    assert program.ends() == 0


def test_quitting_ends_the_program(desk: Bench) -> None:
    program = desk.run(
        "import paipdb\ntry:\n    paipdb.settrace()\n    print('on')\nexcept Exception:\n    print('caught')\n"
    )
    client = program.client()
    client.prompt()
    client.send("q")
    assert program.ends() == 2
    assert program.stdout == ""


def test_nobody_comes_and_it_goes_on(desk: Bench) -> None:
    program = desk.run(LOOP, env={"DEBUG_TIMEOUT": "0.2"})
    assert program.ends() == 0
    assert program.stdout == "step 0\nstep 1\nstep 2\ndone\n"
    told = "No client connect to server in 0.2 seconds, the program goes on without the debugger\n"
    assert program.stderr.count(told) == 1
    assert program.stderr.count("waiting at") == 1


def test_nobody_comes_and_it_ends(desk: Bench) -> None:
    program = desk.run(LOOP, env={"DEBUG_TIMEOUT": "0.2", "DEBUG_ON_TIMEOUT": "exit"})
    assert program.ends() == 1
    assert program.stdout == "No client connect to server in 0.2 seconds, exit\n"


def test_nobody_comes_to_a_program_under_the_debugger(desk: Bench) -> None:
    program = desk.debug("print('on')\n", env={"DEBUG_TIMEOUT": "0.2"})
    assert program.ends() == 1
    assert program.stdout == "No client connect to server in 0.2 seconds, exit\n"


def test_a_program_under_the_debugger_may_go_on_alone(desk: Bench) -> None:
    program = desk.debug("print('on')\n", env={"DEBUG_TIMEOUT": "0.2", "DEBUG_ON_TIMEOUT": "continue"})
    assert program.ends() == 0
    assert program.stdout == "on\n"


def test_a_client_that_comes_later_makes_breakpoints_count_again(desk: Bench) -> None:
    program = desk.run(
        "import paipdb, sys\npaipdb.settrace()\nprint('alone', flush=True)\nsys.stdin.readline()\npaipdb.settrace()\n"
        "print('end')\n",
        env={"DEBUG_TIMEOUT": "0.2", "DEBUG_TOKEN": "off"},
    )
    program.wait_for("alone", "stdout")
    client = Client(program.port())
    client.wait_for("The program is running.")
    assert program.process.stdin
    program.process.stdin.write(b"\n")
    program.process.stdin.flush()
    client.prompt()
    client.send("c")
    assert program.ends() == 0


def test_a_timeout_that_is_no_number(desk: Bench) -> None:
    program = desk.run(LOOP, env={"DEBUG_TIMEOUT": "soon"})
    program.wait_for("timeout is set to 600")
    assert "DEBUG_TIMEOUT is not a number of seconds: 'soon'" in program.stderr


def test_no_end_of_waiting(desk: Bench) -> None:
    program = desk.run(LOOP, env={"DEBUG_TIMEOUT": "0"})
    program.wait_for(r"waiting at train.py:\d; attach")
    assert desk.note()["until"] is None
    program.client().prompt()


def test_post_mortem(desk: Bench) -> None:
    program = desk.run(
        "import paipdb\ndef f(x):\n    return 1 / x\ntry:\n    f(0)\nexcept ZeroDivisionError:\n"
        "    paipdb.post_mortem()\nprint('on')\n"
    )
    client = program.client()
    assert "train.py(3)f()" in client.prompt()
    assert "0" in client.do("p x")
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "on\n"


def test_post_mortem_of_an_exception(desk: Bench) -> None:
    program = desk.run(
        "import paipdb\ntry:\n    {}['a']\nexcept KeyError as error:\n    kept = error\npaipdb.post_mortem(kept)\n"
        "paipdb.post_mortem(kept.__traceback__)\n"
    )
    client = program.client()
    assert "train.py(3)" in client.prompt()
    assert "train.py(3)" in client.do("c")
    client.send("c")
    assert program.ends() == 0


def test_post_mortem_of_nothing(desk: Bench) -> None:
    program = desk.run("import paipdb\npaipdb.post_mortem()\n")
    assert program.ends() == 1
    assert "there is no exception to look at" in program.stderr


def test_a_trap_from_outside(desk: Bench) -> None:
    program = desk.run(
        "import paipdb, time\npaipdb.handle_trap()\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.05)\n"
    )
    program.wait_for("ready", "stdout")
    os.kill(program.process.pid, signal.SIGTRAP)
    client = program.client()
    assert re.search(r"train\.py\([345]\)<module>", client.prompt())  # a signal may be heard after the next
    client.send("q")
    assert program.ends() == 2


def test_a_stop_within_a_command_is_passed_over(desk: Bench) -> None:
    client = desk.run("import paipdb\ndef f():\n    paipdb.settrace()\n    return 5\nf()\n").client()
    client.prompt()
    told = client.do("f()")
    assert "passed over" in told
    assert "5" in told


def test_python_is_told_by_its_own_variable(desk: Bench) -> None:
    program = desk.run("x = 1\nbreakpoint()\nprint(x)\n", env={"PYTHONBREAKPOINT": "paipdb.settrace"})
    client = program.client()
    client.prompt()
    client.send("c")
    assert program.ends() == 0
