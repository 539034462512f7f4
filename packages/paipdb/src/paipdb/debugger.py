"""pdb, with its prompt on the debug server's port."""

import contextlib
import linecache
import os
import pdb
import sys
import threading
import types
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from .console import Console, Interpreter
from .debug_server import DebugServer, get_or_create_server
from .peers import pause_peers
from .prompt import SupportsPrompt
from .shutdown import exit_program, flush_output
from .task_environment import DEFAULT_TIMEOUT, get_wait_timeout, write_log

QUIT_CODE = 2  # exit code after `q`; after a crash or a timeout it is 1


class Debugger(pdb.Pdb, SupportsPrompt):
    """pdb for one thread. Each thread that stops has its own."""

    timeout_action = "continue"  # or "exit", under `python -m paipdb`
    has_crashed = False  # the program cannot continue

    def __init__(self) -> None:
        self.console = Console(self)
        stream: Any = self.console
        is_main = threading.current_thread() is threading.main_thread()
        super().__init__(stdin=stream, stdout=stream, skip=["paipdb", "paipdb.*"], nosigint=True, readrc=is_main)
        self.prompt = "(Pdb) "
        self.stop_reason = "breakpoint"
        self.timeout = DEFAULT_TIMEOUT
        self.outcome = ""  # of the last prompt: "quit", "timeout", or empty if the program continues

    # --- stopping

    def interaction(self, frame: Optional[types.FrameType], tb_or_exc: Any) -> None:
        interact = super().interaction
        self._run_at_prompt(frame, tb_or_exc, lambda: interact(frame, tb_or_exc))

    def bp_commands(self, frame: types.FrameType) -> Any:
        run_commands = super().bp_commands
        has_commands = getattr(self, "currentbp", 0) in self.commands
        if has_commands and sys.version_info < (3, 14):  # these versions run the commands outside of interaction()
            return self._run_at_prompt(frame, None, lambda: run_commands(frame))
        return run_commands(frame)

    def _run_at_prompt(self, frame: Optional[types.FrameType], tb_or_exc: Any, action: Callable[[], Any]) -> Any:
        """Run `action` while this thread has the prompt."""
        server = get_or_create_server()
        if server.prompt_thread_id == threading.get_ident():
            return action()  # called by a command
        if not server.listener.is_open and not try_open_server(server, None):  # in a forked child
            self.set_continue()
            return None
        server.acquire_prompt()
        self.outcome = ""
        result = None
        try:
            if server.has_timed_out and server.client is None and self.stop_reason != "crash":
                self.set_continue()
            else:
                with pause_peers():  # first: a process that the note reports as waiting must not be paused
                    self._begin_prompt(server, frame, tb_or_exc)
                    result = action()
        finally:
            server.release_prompt(is_stepping=self.outcome == "" and self.stoplineno != -1)
            self.stop_reason = "breakpoint"
        self._apply_outcome(server)
        return result

    def _begin_prompt(self, server: DebugServer, frame: Optional[types.FrameType], tb_or_exc: Any) -> None:
        flush_output()  # users read the log while the program is stopped
        self.timeout = get_wait_timeout()
        stack, index = self.get_stack(frame, getattr(tb_or_exc, "__traceback__", tb_or_exc))
        self._report_location(server, *stack[index])
        self.console.begin_prompt()

    def _report_location(self, server: DebugServer, frame: types.FrameType, line: Optional[int]) -> None:
        server.set_location(self.stop_reason, self.canonic(frame.f_code.co_filename), line or 0, frame.f_code.co_name)

    def _apply_outcome(self, server: DebugServer) -> None:
        if self.outcome == "quit":
            if self.has_crashed:
                exit_program(1)
            write_log(f"paipdb: the program was ended in the debugger, with exit code {QUIT_CODE}")
            exit_program(QUIT_CODE)
        elif self.outcome == "timeout":
            server.has_timed_out = True
            message = f"No client connect to server in {self.timeout:g} seconds, "
            if self.has_crashed or (os.environ.get("DEBUG_ON_TIMEOUT") or self.timeout_action) == "exit":
                with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
                    sys.stdout.write(message + "exit\n")
                    sys.stdout.flush()
                exit_program(1)
            write_log(message + "the program goes on without the debugger")

    def stop_immediately(self, frame: types.FrameType) -> None:
        """Stop in a signal handler. The frame may be in a long call, so do not wait for its next line."""
        self.reset()
        traced: Optional[types.FrameType] = frame
        while traced is not None:
            traced.f_trace = self.trace_dispatch
            self.botframe = traced
            traced = traced.f_back
        self.set_step()
        self.interaction(frame, None)
        if self.breaks or self.stoplineno != -1:
            sys.settrace(self.trace_dispatch)

    def run_as_main(self, compiled: types.CodeType, namespace: Dict[str, Any]) -> None:
        """Run the program, and stop before its first line."""
        self.reset()
        self.mainpyfile = self.canonic(compiled.co_filename)
        self._wait_for_mainpyfile = True
        self.stop_reason = "start"
        sys.settrace(self.trace_dispatch)
        try:
            exec(compiled, namespace)  # noqa: S102  this is the program
        finally:
            sys.settrace(None)

    def get_stack(self, frame: Any, traceback: Any) -> Tuple[List[Tuple[types.FrameType, int]], int]:
        """Return the stack without the debugger's own frames, and the index of the current frame."""
        stack, index = super().get_stack(frame, traceback)
        while len(stack) > 1 and is_internal_frame(stack[0][0]):
            del stack[0]
            index = max(0, index - 1)
        return stack, index

    # --- location

    def show_prompt(self) -> None:
        self.console.write(self.prompt)

    def show_location(self) -> None:
        if self.curframe is not None:
            self.print_stack_entry(self.stack[self.curindex])

    def send_location_event(self) -> None:
        if self.curframe is not None:
            with contextlib.suppress(Exception):  # code can name any file as its source
                get_or_create_server().send_event(self._build_prompt_event())

    def _build_prompt_event(self) -> Dict[str, Any]:
        first_index = max(0, min(self.curindex - 10, len(self.stack) - 50))
        frames = [_describe_frame(frame, line) for frame, line in self.stack[first_index : first_index + 50]]
        frame, line = self.stack[self.curindex]
        file_lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        first_line = max(1, line - 15)
        source = [text.rstrip("\n")[:300] for text in file_lines[first_line - 1 : line + 15]]
        event = {
            "event": "prompt",
            "stack": frames,
            "index": self.curindex - first_index,
            "source": [first_line, source],
        }
        return dict(event, **_describe_frame(frame, line))

    # --- commands

    def onecmd(self, line: str) -> bool:
        with self.console.redirect_standard_streams(), get_or_create_server().allow_abort():
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

        End of input: no client connected before the timeout.
        """
        if not self.console.has_timed_out:
            self.message("To leave the program where it is, close the connection. To end it, type q.")
            return False
        self.outcome = "timeout"
        self.set_continue()
        return True

    def do_jump(self, arg: str) -> None:
        before = self.stack[self.curindex]
        super().do_jump(arg)
        if self.stack[self.curindex] != before:
            self._report_location(get_or_create_server(), *self.stack[self.curindex])

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

        While the program runs: stop it where it is. Ctrl-C does the same, if the client sends it as a byte.
        """
        self.message("The program is already stopped.")

    def do_interact(self, arg: str) -> None:
        """interact

        Start an interactive interpreter with all the names of the current scope. exit() returns to pdb.
        """
        frame = self.curframe
        assert frame is not None
        interpreter = Interpreter(dict(frame.f_globals, **frame.f_locals), self.console)
        with contextlib.suppress(EOFError, SystemExit):
            interpreter.interact("*pdb interact start*; exit() leads back", "")
        self.message("*exit from pdb interact command*")


def _describe_frame(frame: types.FrameType, line: int) -> Dict[str, Any]:
    return {"file": frame.f_code.co_filename[-400:], "line": line, "function": frame.f_code.co_name[:200]}


def is_internal_frame(frame: types.FrameType) -> bool:
    """Whether the frame belongs to the debugger or to the modules that it uses to run the program."""
    return frame.f_globals.get("__package__") == "paipdb" or frame.f_globals.get("__name__") in _INTERNAL_MODULES


_INTERNAL_MODULES = ("bdb", "pdb", "cmd", "runpy", "contextlib", "threading", "importlib._bootstrap")
_thread_local = threading.local()


def get_or_create_debugger() -> Debugger:
    """Return the debugger of this thread, which keeps its breakpoints, aliases and displays."""
    if getattr(_thread_local, "debugger", None) is None:
        _thread_local.debugger = Debugger()
    debugger = _thread_local.debugger
    assert isinstance(debugger, Debugger)
    return debugger


def try_open_server(server: DebugServer, port: Optional[int]) -> bool:
    """Start listening. Return False, and log the reason, if no port is available."""
    try:
        server.open(port, stop_from_signal_handler)
        return True
    except OSError as error:
        write_log(f"paipdb: Failed to start the remote debug: {error}")
        return False


def stop_at_frame(frame: types.FrameType, port: Optional[int]) -> None:
    """Stop at the frame's next line, or at the current one in newer versions of Python."""
    trace_function = sys.gettrace()
    sys.settrace(None)  # a debugger that is stepping would step into itself
    server = get_or_create_server()
    if server.prompt_thread_id == threading.get_ident():
        server.write("(a breakpoint within a command is passed over)\n")
    elif not (server.has_timed_out and server.client is None) and try_open_server(server, port):
        get_or_create_debugger().set_trace(frame)
        return
    sys.settrace(trace_function)


def stop_from_signal_handler(frame: Optional[types.FrameType]) -> None:
    """Stop immediately, in a signal handler. `frame` is the frame that the signal interrupted."""
    trace_function = sys.gettrace()
    sys.settrace(None)
    server = get_or_create_server()
    while frame is not None and is_internal_frame(frame):
        frame = frame.f_back
    if frame is not None and server.prompt_thread_id != threading.get_ident() and try_open_server(server, None):
        get_or_create_debugger().stop_immediately(frame)
    else:
        sys.settrace(trace_function)


def post_mortem(t: Union[types.TracebackType, BaseException, None] = None) -> None:
    """Inspect a traceback or an exception; by default the exception that is being handled."""
    t = t if t is not None else sys.exc_info()[2]
    traceback = getattr(t, "__traceback__", t)
    if traceback is None:
        raise ValueError("there is no exception to look at: pass one, or call post_mortem where one is being handled")
    trace_function = sys.gettrace()
    sys.settrace(None)
    if try_open_server(get_or_create_server(), None):
        debugger = get_or_create_debugger()
        debugger.reset()
        debugger.stop_reason = "crash"
        debugger.interaction(None, t if isinstance(t, BaseException) and sys.version_info >= (3, 13) else traceback)
    sys.settrace(trace_function)
