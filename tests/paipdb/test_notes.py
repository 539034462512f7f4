"""What the platform is told."""

from __future__ import annotations

import json
import time

from .debugged import Bench, Client

TWO = "import paipdb\npaipdb.settrace()\nx = 1\npaipdb.settrace()\ny = 2\n"


def test_somebody_is_waited_for(desk: Bench) -> None:
    before = time.time()
    program = desk.debug("def f():\n    return 1\nf()\n", env={"DEBUG_TIMEOUT": "100"})
    token, port = program.token(), program.port()
    note = desk.note()
    assert before <= note.pop("since") <= time.time()
    assert before + 100 <= note.pop("until") <= time.time() + 100
    assert note == {
        "version": 1,
        "pid": program.process.pid,
        "file": f"{desk.folder}/train.py",
        "line": 1,
        "function": "<module>",
        "why": "start",
        "port": port,
        "local": True,
        "token": token,
        "attached": False,
        "waits": True,
    }
    assert [path.name for path in desk.notes.iterdir()] == [f"debugger-{program.process.pid}-1.json"]


def test_somebody_is_at_it(desk: Bench) -> None:
    program = desk.run(TWO)
    client = program.client()
    client.prompt()
    note = desk.note()
    assert (note["attached"], note["waits"], note["until"], note["why"]) == (True, True, None, "breakpoint")
    assert note["line"] in (2, 3)  # newer Pythons stop at the call, older ones after it
    client.do("c")
    assert desk.note()["line"] in (4, 5)


def test_a_jump_is_told(desk: Bench) -> None:
    program = desk.debug("a = 1\nb = 2\nc = 3\n")
    client = program.client()
    client.prompt()
    client.do("jump 3")
    assert desk.note()["line"] == 3
    client.do("j 2")
    assert desk.note()["line"] == 2
    client.do("j nowhere")
    assert (desk.note()["line"], desk.note()["why"]) == (2, "start")
    assert "next line that will be executed" in client.do("help jump")


def test_the_program_runs(desk: Bench) -> None:
    program = desk.debug("print('running', flush=True)\ninput()\n")
    client = program.client()
    client.prompt()
    client.send("c")
    program.wait_for("running", "stdout")
    note = desk.note()
    assert (note["attached"], note["waits"], note["until"]) == (True, False, None)


def test_nothing_is_left(desk: Bench) -> None:
    program = desk.run(TWO)
    client = program.client()
    client.prompt()
    client.do("c")
    client.send("c")
    assert program.ends() == 0
    assert list(desk.notes.iterdir()) == []


def test_nothing_is_left_after_quitting_or_a_wait_in_vain(desk: Bench) -> None:
    program = desk.run(TWO)
    client = program.client()
    client.prompt()
    client.send("q")
    assert program.ends() == 2
    assert desk.debug("x = 1\n", env={"DEBUG_TIMEOUT": "0.1"}).ends() == 1
    assert list(desk.notes.iterdir()) == []


def test_notes_of_killed_processes_are_cleared_away(desk: Bench) -> None:
    first = desk.run(TWO)
    first.port()
    first.process.kill()
    first.ends()
    assert len(list(desk.notes.iterdir())) == 1
    second = desk.run(TWO)
    second.port()
    assert desk.note()["pid"] == second.process.pid


def test_without_a_folder(desk: Bench) -> None:
    for folder in ("", "/nonexistent/notes", "/proc"):
        program = desk.debug("x = 1\n", env={"HOLDFAST_NOTES": folder})
        program.wait_for(r"attach with: nc 127\.0\.0\.1 \d+, token \S{12}\n")
        client = program.client()
        client.prompt()
        client.send("c")
        assert program.ends() == 0


def test_a_note_is_small(desk: Bench) -> None:
    name = "f" * 3000
    source = f"import paipdb\ndef {name}():\n    paipdb.settrace()\n    x = 1\n{name}()\n"
    deep = "/".join(["d" * 200] * 8)
    (desk.folder / deep).mkdir(parents=True)
    (desk.folder / deep / "train.py").write_text(source)
    program = desk.start(f"{deep}/train.py", env={"DEBUG_TOKEN": "t" * 3000})
    program.port()
    (path,) = desk.notes.iterdir()
    assert len(path.read_bytes()) < 4096
    assert json.loads(path.read_text())["file"].endswith("/train.py")


def test_a_client_is_seen_leaving(desk: Bench) -> None:
    program = desk.run(TWO, env={"DEBUG_TOKEN": "off"})
    client = Client(program.port())
    client.prompt()
    client.close()
    program.wait_for("waiting at", count=2)
    note = desk.note()
    assert (note["attached"], note["waits"]) == (False, True)
    assert note["until"] is not None
