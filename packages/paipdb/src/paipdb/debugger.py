"""pdb, with its prompt at the port."""

import contextlib
import linecache
import os
import pdb
import sys
import threading
import types
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from .console import Console, Interpreter
from .ending import end, flush_output
from .peers import peers_held
from .port import Port, the_port
from .prompt import Prompt
from .task import DEFAULT_TIMEOUT, log, seconds_to_wait

QUIT_CODE = 2  # of a program that was ended by `q`; 1 is that of a crash and of a wait in vain


class Debugger(pdb.Pdb, Prompt):
    """One for each thread that stops."""

    on_timeout = "continue"  # or "exit", which is what `python -m paipdb` does
    crashed = False  # there is nothing left that could go on

    def __init__(self) -> None:
        self.console = Console(self)
        stream: Any = self.console
        is_main = threading.current_thread() is threading.main_thread()
        super().__init__(stdin=stream, stdout=stream, skip=["paipdb", "paipdb.*"], nosigint=True, readrc=is_main)
        self.prompt = "(Pdb) "
        self.why = "breakpoint"
        self.timeout = DEFAULT_TIMEOUT
        self.outcome = ""

    # --- stopping

    def interaction(self, frame: Optional[types.FrameType], trace: Any) -> None:
        interact = super().interaction
        self._stand(frame, trace, lambda: interact(frame, trace))

    def bp_commands(self, frame: types.FrameType) -> Any:
        run = super().bp_commands
        given = getattr(self, "currentbp", 0) in self.commands
        if given and sys.version_info < (3, 14):  # which then runs a breakpoint's commands outside of an interaction
            return self._stand(frame, None, lambda: run(frame))
        return run(frame)

    def _stand(self, frame: Optional[types.FrameType], trace: Any, act: Callable[[], Any]) -> Any:
        """Has the prompt while `act` runs."""
        port = the_port()
        if port.holder == threading.get_ident():
            return act()  # a command led here
        if not port.door.is_open and not opened(port, None):  # in a forked child
            self.set_continue()
            return None
        port.take_turn()
        self.outcome = ""
        result = None
        try:
            if port.gave_up and port.client is None and self.why != "crash":
                self.set_continue()
            else:
                with peers_held():  # first: whom the platform names as waiting must not be made to stand
                    self._begin(port, frame, trace)
                    result = act()
        finally:
            port.give_turn(steps=self.outcome == "" and self.stoplineno != -1)
            self.why = "breakpoint"
        self._act_on_outcome(port)
        return result

    def _begin(self, port: Port, frame: Optional[types.FrameType], trace: Any) -> None:
        flush_output()  # the log is read while the program stands
        self.timeout = seconds_to_wait()
        stack, index = self.get_stack(frame, getattr(trace, "__traceback__", trace))
        self._note_place(port, *stack[index])
        self.console.begin()

    def _note_place(self, port: Port, frame: types.FrameType, line: Optional[int]) -> None:
        port.stands(self.why, self.canonic(frame.f_code.co_filename), line or 0, frame.f_code.co_name)

    def _act_on_outcome(self, port: Port) -> None:
        if self.outcome == "quit":
            end(1 if self.crashed else QUIT_CODE)
        elif self.outcome == "timeout":
            port.gave_up = True
            waited = f"No client connect to server in {self.timeout:g} seconds, "
            if self.crashed or (os.environ.get("DEBUG_ON_TIMEOUT") or self.on_timeout) == "exit":
                with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
                    sys.stdout.write(waited + "exit\n")
                    sys.stdout.flush()
                end(1)
            log(waited + "the program goes on without the debugger")

    def stop_at_once(self, frame: types.FrameType) -> None:
        """From a signal's handler: the frame may be within a call that takes long, so do not wait for its next line."""
        self.reset()
        above: Optional[types.FrameType] = frame
        while above is not None:
            above.f_trace = self.trace_dispatch
            self.botframe = above
            above = above.f_back
        self.set_step()
        self.interaction(frame, None)
        if self.breaks or self.stoplineno != -1:
            sys.settrace(self.trace_dispatch)

    def run_as_main(self, compiled: types.CodeType, names: Dict[str, Any]) -> None:
        self.reset()
        self.mainpyfile = self.canonic(compiled.co_filename)
        self._wait_for_mainpyfile = True
        self.why = "start"
        sys.settrace(self.trace_dispatch)
        try:
            exec(compiled, names)  # noqa: S102  this is the program
        finally:
            sys.settrace(None)

    def get_stack(self, frame: Any, trace: Any) -> Tuple[List[Tuple[types.FrameType, int]], int]:
        """Without the debugger's own frames."""
        stack, index = super().get_stack(frame, trace)
        while len(stack) > 1 and is_internal(stack[0][0]):
            del stack[0]
            index = max(0, index - 1)
        return stack, index

    # --- telling

    def show_prompt(self) -> None:
        self.console.write(self.prompt)

    def show_place(self) -> None:
        if self.curframe is not None:
            self.print_stack_entry(self.stack[self.curindex])

    def tell_place(self) -> None:
        if self.curframe is not None:
            with contextlib.suppress(Exception):  # whatever files the program says its code is from
                the_port().event(self._place())

    def _place(self) -> Dict[str, Any]:
        first = max(0, min(self.curindex - 10, len(self.stack) - 50))
        frames = [_described(frame, line) for frame, line in self.stack[first : first + 50]]
        frame, line = self.stack[self.curindex]
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        top = max(1, line - 15)
        text = [each.rstrip("\n")[:300] for each in lines[top - 1 : line + 15]]
        event = {"event": "prompt", "stack": frames, "index": self.curindex - first, "source": [top, text]}
        return dict(event, **_described(frame, line))

    # --- commands

    def onecmd(self, line: str) -> bool:
        with self.console.as_standard(), the_port().command():
            return bool(super().onecmd(line))

    def do_quit(self, arg: str) -> bool:
        """q(uit) | exit

        End the program, with exit code 2. To leave it as it is, close the connection instead.
        """
        self.outcome = "quit"
        self.set_continue()
        return True

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> bool:
        """EOF

        Nobody came in time.
        """
        if not self.console.timed_out:
            self.message("To leave the program where it is, close the connection. To end it, type q.")
            return False
        self.outcome = "timeout"
        self.set_continue()
        return True

    def do_jump(self, arg: str) -> None:
        before = self.stack[self.curindex]
        super().do_jump(arg)
        if self.stack[self.curindex] != before:
            self._note_place(the_port(), *self.stack[self.curindex])

    do_jump.__doc__ = pdb.Pdb.do_jump.__doc__
    do_j = do_jump

    def do_run(self, arg: str) -> None:
        """run | restart

        Not available here: a job runs its program once.
        """
        self.error("a job runs its program once; submit it again, or `holdfast rerun` it")

    do_restart = do_run

    def do_interrupt(self, arg: str) -> None:
        """interrupt

        While the program runs: stop it where it is. Ctrl-C, where a client sends it as a byte, is the same.
        """
        self.message("The program is already stopped.")

    def do_interact(self, arg: str) -> None:
        """interact

        Start an interactive interpreter with all the names of the current scope. exit() leads back.
        """
        frame = self.curframe
        assert frame is not None
        interpreter = Interpreter(dict(frame.f_globals, **frame.f_locals), self.console)
        with contextlib.suppress(EOFError, SystemExit):
            interpreter.interact("*pdb interact start*; exit() leads back", "")
        self.message("*exit from pdb interact command*")


def _described(frame: types.FrameType, line: int) -> Dict[str, Any]:
    return {"file": frame.f_code.co_filename[-400:], "line": line, "function": frame.f_code.co_name[:200]}


def is_internal(frame: types.FrameType) -> bool:
    """Whether it is of the debugger, or of what leads from it to the program."""
    return frame.f_globals.get("__package__") == "paipdb" or frame.f_globals.get("__name__") in _INTERNALS


_INTERNALS = ("bdb", "pdb", "cmd", "runpy", "contextlib", "threading", "importlib._bootstrap")
_of_thread = threading.local()


def the_debugger() -> Debugger:
    """This thread's own, so that its breakpoints, aliases and displays last."""
    if getattr(_of_thread, "debugger", None) is None:
        _of_thread.debugger = Debugger()
    found = _of_thread.debugger
    assert isinstance(found, Debugger)
    return found


def opened(port: Port, number: Optional[int]) -> bool:
    try:
        port.open(number, stop_in_handler)
        return True
    except OSError as problem:
        log(f"paipdb: Failed to start the remote debug: {problem}")
        return False


def stop_in(frame: types.FrameType, number: Optional[int]) -> None:
    """At this frame's next line; newer Pythons: at this one."""
    tracing = sys.gettrace()
    sys.settrace(None)  # a debugger that is stepping would step into itself
    port = the_port()
    if port.holder == threading.get_ident():
        port.write("(a breakpoint within a command is passed over)\n")
    elif not (port.gave_up and port.client is None) and opened(port, number):
        the_debugger().set_trace(frame)
        return
    sys.settrace(tracing)


def stop_in_handler(frame: Optional[types.FrameType]) -> None:
    """At once, from the handler of a signal that came while the main thread was in this frame."""
    tracing = sys.gettrace()
    sys.settrace(None)
    port = the_port()
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    if frame is not None and port.holder != threading.get_ident() and opened(port, None):
        the_debugger().stop_at_once(frame)
    else:
        sys.settrace(tracing)


def post_mortem(t: Union[types.TracebackType, BaseException, None] = None) -> None:
    """Looks at a traceback or an exception, or at the exception that is being handled."""
    t = t if t is not None else sys.exc_info()[2]
    trace = getattr(t, "__traceback__", t)
    if trace is None:
        raise ValueError("there is no exception to look at: pass one, or call post_mortem where one is being handled")
    tracing = sys.gettrace()
    sys.settrace(None)
    if opened(the_port(), None):
        debugger = the_debugger()
        debugger.reset()
        debugger.why = "crash"
        debugger.interaction(None, t if isinstance(t, BaseException) and sys.version_info >= (3, 13) else trace)
    sys.settrace(tracing)
