"""`python -m paipdb`: from the first line to the end or the crash."""

from __future__ import annotations

from .debugged import Bench

SUM = """\
import sys
def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result
print("args", sys.argv[1:])
print("sum", total(map(int, sys.argv[1:])))
"""

CRASH = """\
def divide(a, b):
    return a / b
print("before")
divide(1, 0)
"""


def test_it_waits_before_the_first_line(desk: Bench) -> None:
    program = desk.debug(SUM, "1", "--two", "2")
    client = program.client()
    assert client.prompt() == f"> {desk.folder}/train.py(1)<module>()\n-> import sys\n(Pdb) "
    assert program.stdout == ""
    client.send("q")
    program.ends()


def test_the_program_writes_to_its_own_log(desk: Bench) -> None:
    program = desk.debug(SUM, "1", "2")
    client = program.client()
    client.prompt()
    client.send("c")
    assert client.rest() == "The program finished.\n"
    assert program.ends() == 0
    assert program.stdout == "args ['1', '2']\nsum 3\n"


def test_breakpoints_steps_and_looks(desk: Bench) -> None:
    client = desk.debug(SUM, "3", "4").client()
    client.prompt()
    assert "Breakpoint 1" in client.do("b 5, number == 4")
    assert "train.py(5)total()" in client.do("c")
    assert "(3, 4)" in client.do("p result, number")
    where = client.do("w")
    assert where.count("train.py(") == 2
    assert "paipdb" not in where
    assert "bdb" not in where
    assert "train.py(4)total()" in client.do("n")
    assert "7" in client.do("result")
    assert "<module>()" in client.do("u")
    assert "['3', '4']" in client.do("p sys.argv[1:]")


def test_a_module(desk: Bench) -> None:
    desk.write("work/__init__.py", "")
    desk.write("work/__main__.py", "from . import __name__ as here\nimport sys\nprint(here, __spec__.name, sys.argv)\n")
    program = desk.start("-m", "paipdb", "-m", "work", "a b")
    client = program.client()
    assert "__main__.py(1)<module>()" in client.prompt()
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == f"work work.__main__ ['{desk.folder}/work/__main__.py', 'a b']\n"


def test_what_is_printed_at_the_prompt_is_the_clients(desk: Bench) -> None:
    program = desk.debug(SUM)
    client = program.client()
    client.prompt()
    assert client.do("print('for me')") == "for me\n(Pdb) "
    client.send("c")
    program.ends()
    assert "for me" not in program.stdout + program.stderr


def test_the_programs_input_is_its_own(desk: Bench) -> None:
    program = desk.debug("print('got', input())\n")
    assert program.process.stdin
    program.process.stdin.write(b"from the job\n")
    program.process.stdin.flush()
    client = program.client()
    client.prompt()
    client.send("c")
    program.ends()
    assert program.stdout == "got from the job\n"


def test_quitting_is_no_success(desk: Bench) -> None:
    program = desk.debug(SUM)
    client = program.client()
    client.prompt()
    client.send("q")
    assert client.rest() == "The program ends with exit code 2.\n"
    assert program.ends() == 2
    assert program.stdout == ""
    assert "paipdb: the program was ended in the debugger, with exit code 2\n" in program.stderr


def test_quitting_runs_what_cleans_up(desk: Bench) -> None:
    program = desk.debug("try:\n    x = 1\n    y = 2\nfinally:\n    print('cleaned up')\n")
    client = program.client()
    client.prompt()
    client.do("n")
    client.do("n")
    client.send("q")
    assert program.ends() == 2
    assert program.stdout == "cleaned up\n"


def test_quitting_a_program_that_catches_everything_is_no_success(desk: Bench) -> None:
    program = desk.debug("try:\n    x = 1\n    y = 2\nexcept BaseException:\n    print('caught')\nprint('goes on')\n")
    client = program.client()
    client.prompt()
    client.do("n")
    client.do("n")
    client.send("q")
    assert program.ends() == 2
    assert program.stdout == "caught\ngoes on\n"


def test_quitting_does_not_wait_for_threads_that_never_end(desk: Bench) -> None:
    program = desk.debug(
        "import threading, paipdb.shutdown\n"
        "paipdb.shutdown.CLEANUP_TIMEOUT = 0.2\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "x = 1\n"
    )
    client = program.client()
    client.prompt()
    client.do("until 4")
    client.send("q")
    assert program.ends() == 2


def test_sys_exit_keeps_its_code(desk: Bench) -> None:
    program = desk.debug("import sys\nprint('once')\nsys.exit(7)\n")
    client = program.client()
    client.prompt()
    client.send("c")
    assert client.rest() == "The program exited via sys.exit(). Exit status: 7\n"
    assert program.ends() == 7
    assert program.stdout == "once\n"


def test_sys_exit_with_words(desk: Bench) -> None:
    program = desk.debug("import sys\nsys.exit('no data')\n")
    client = program.client()
    client.prompt()
    client.send("c")
    assert program.ends() == 1
    assert program.stderr.endswith("no data\n")


def test_a_crash_is_looked_at_where_it_happened(desk: Bench) -> None:
    program = desk.debug(CRASH)
    client = program.client()
    client.prompt()
    told = client.do("c")
    assert "Uncaught exception: ZeroDivisionError: division by zero" in told
    assert "train.py(2)divide()" in told
    assert "(1, 0)" in client.do("p a, b")
    assert "before" in program.stdout
    assert desk.note()["why"] == "crash"
    client.send("c")
    assert client.rest() == "The program ends with exit code 1.\n"
    assert program.ends() == 1
    assert program.stderr.count("Traceback (most recent call last):") == 1
    assert f'File "{desk.folder}/train.py", line 4, in <module>' in program.stderr
    assert "debugger.py" not in program.stderr
    assert program.stdout == "before\n"


def test_quitting_after_a_crash(desk: Bench) -> None:
    program = desk.debug(CRASH)
    client = program.client()
    client.prompt()
    client.do("c")
    client.send("q")
    assert program.ends() == 1


def test_a_crash_that_nobody_comes_to(desk: Bench) -> None:
    program = desk.debug(CRASH, env={"DEBUG_TIMEOUT": "2"})
    client = program.client()
    client.prompt()
    client.send("c")
    client.close()
    assert program.ends() == 1
    assert program.stdout == "before\nNo client connect to server in 2 seconds, exit\n"
    assert "ZeroDivisionError" in program.stderr


def test_a_script_that_cannot_be_read(desk: Bench) -> None:
    program = desk.start("-m", "paipdb", "nothing.py")
    assert program.ends() == 1
    assert program.stderr == "paipdb: cannot read nothing.py: No such file or directory\n"


def test_a_script_that_is_no_python(desk: Bench) -> None:
    program = desk.debug("x = (\n")
    assert program.ends() == 1
    assert "SyntaxError" in program.stderr
    assert "waiting" not in program.stderr


def test_how_it_is_called(desk: Bench) -> None:
    program = desk.start("-m", "paipdb")
    assert program.ends() == 2
    assert program.stderr.startswith("usage: python -m paipdb")


def test_commands_given_beforehand(desk: Bench) -> None:
    desk.write("train.py", SUM)
    program = desk.start("-m", "paipdb", "-c", "b 6", "-c", "c", "train.py", "5")
    assert "train.py(6)total()" in program.client().prompt()


def test_restarting_is_not_offered(desk: Bench) -> None:
    client = desk.debug(SUM).client()
    client.prompt()
    assert "a job runs its program once" in client.do("restart")
    assert "a job runs its program once" in client.do("run 1 2")


def test_an_interpreter_by_the_port(desk: Bench) -> None:
    client = desk.debug(SUM).client()
    client.prompt()
    client.do("n")
    client.send("interact")
    client.wait_for(">>> ")
    client.send("for each in 'ab':")
    client.wait_for("... ")
    client.send("    print(each * 3)")
    client.wait_for("... ")
    client.send("")
    assert client.wait_for(">>> ") == "aaa\nbbb\n>>> "
    client.send("sys.argv[0], unknown")
    assert "NameError" in client.wait_for(">>> ")
    assert "exit from pdb interact" in client.do("exit()")
    assert "2" in client.do("p 1 + 1")


def test_questions_are_asked_by_the_port(desk: Bench) -> None:
    client = desk.debug(SUM, "1").client()
    client.prompt()
    client.do("b 5")
    client.send("clear")
    client.wait_for("Clear all breaks? ")
    assert "Deleted breakpoint 1" in client.do("y")


def test_help_and_a_recursive_debugger(desk: Bench) -> None:
    client = desk.debug(SUM).client()
    client.prompt()
    assert "Documented commands" in client.do("help")
    assert "exit code 2" in client.do("help q")
    client.do("n")
    client.do("n")
    client.send("debug total([1, 2])")
    client.wait_for("((Pdb)) ")
    client.send("c")
    assert "LEAVING RECURSIVE DEBUGGER" in client.prompt()


def test_breakpoint_of_the_language(desk: Bench) -> None:
    program = desk.debug("x = 1\nbreakpoint()\nprint(x)\n")
    client = program.client()
    client.prompt()
    assert "train.py(" in client.do("c")
    assert "1" in client.do("p x")
    client.send("c")
    assert program.ends() == 0


def test_worker_processes_are_told_apart_from_it(desk: Bench) -> None:
    """Those of multiprocessing load the script by its own name, without the debugger."""
    program = desk.debug(
        "import multiprocessing\n"
        "def double(number):\n"
        "    return 2 * number\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2]))\n"
    )
    client = program.client()
    client.prompt()
    client.send("c")
    assert program.ends() == 0
    assert program.stdout == "[2, 4]\n"
    assert program.stderr.count("waiting at") == 1
