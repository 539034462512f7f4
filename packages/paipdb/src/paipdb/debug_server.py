"""Connects one client at a time with the program's threads, one of which has the prompt."""

import collections
import contextlib
import json
import os
import signal
import sys
import threading
import time
import types
from typing import Any, Callable, Deque, Dict, Iterator, Optional

from .client import EVENTS_REQUEST, Client
from .debugger_note import DebuggerNote
from .listener import Listener
from .prompt import SupportsPrompt
from .task_environment import get_job_and_task, shorten_path, write_log

_MAX_INPUT_LINES = 1000  # that a client may send in advance
_MAX_UNSENT_SIZE = 64 * 1024  # characters kept for the next client
_STEP_PRIORITY_TIMEOUT = 1.0  # seconds in which a stepping thread gets the prompt before others
_SHOW_PROMPT = "\0show"  # an input line: show the prompt again
_INTERRUPT_SIGNAL = signal.SIGURG  # ignored by default, so a stray one is harmless
_RUNNING_MESSAGE = (
    "The program is running. It stops at its next breakpoint; type interrupt (or Ctrl-C) to stop it now.\n"
)


class DebugServer:
    """The debugger's side of the connection. Each process has its own; see get_or_create_server."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.listener = Listener(self._get_refusal, self._serve_client)
        self.client: Optional[Client] = None
        self.prompt_thread_id: Optional[int] = None
        self.has_timed_out = False  # breakpoints are ignored until a client connects
        self._changed = threading.Condition()  # guards all attributes
        self._greeted_client: Optional[Client] = None  # receives the output; for any other client it is kept
        self._input_lines: Deque[str] = collections.deque()
        self._unsent_output = ""
        self._step_priority = (0, 0.0)  # id of the stepping thread, and the monotonic time of the end of its priority
        self._last_thread_name = ""
        self._on_interrupt: Optional[Callable[[Optional[types.FrameType]], None]] = None
        self._is_interrupt_requested = False
        self._is_abort_requested = False
        self._command_thread_id: Optional[int] = None  # the thread that runs a command
        self._is_reading = False
        self._note = DebuggerNote()

    def open(self, port: Optional[int], on_interrupt: Callable[[Optional[types.FrameType]], None]) -> None:
        """Listen on the port, or on a default one. When a client requests an interrupt, `on_interrupt` is called in the
        main thread with its current frame."""
        if not self.listener.is_open and "multiprocessing.util" in sys.modules:  # its workers end without atexit
            sys.modules["multiprocessing.util"].Finalize(None, close_server, exitpriority=0)
        self.listener.open(port)
        is_main = threading.current_thread() is threading.main_thread()
        if self._on_interrupt is None and is_main and _is_signal_unused(_INTERRUPT_SIGNAL):
            with contextlib.suppress(ValueError):  # an embedded interpreter has no signals
                signal.signal(_INTERRUPT_SIGNAL, self._handle_signal)
                self._on_interrupt = on_interrupt

    # --- client

    def _get_refusal(self) -> str:
        """Return why another client cannot attach now; empty if it can."""
        client = self.client
        if client is None or (client.is_input_closed and not self._input_lines):
            return ""
        since = time.strftime("%H:%M:%S UTC", time.gmtime(client.connected_at))
        return f"Another client is at this debugger, from {client.name} since {since}. Try again later.\n"

    def _serve_client(self, client: Client) -> None:
        try:
            client.wants_events = client.consume_events_request()
            if self._attach_client(client):
                line = client.read_line()
                while line is not None and self._handle_line(client, line):
                    line = client.read_line()
        finally:
            self._handle_end_of_input(client)

    def _attach_client(self, client: Client) -> bool:
        """Attach the client, or send it a refusal. Return whether it is attached."""
        with self._changed:
            refusal = self._get_refusal()
            if refusal:
                client.send(refusal)
                return False
            self.detach_client()
            self.client = client
            self.has_timed_out = False
            if self.prompt_thread_id is None:
                self._greeted_client = client
                client.send(_RUNNING_MESSAGE)
            self._write_note()
            self._changed.notify_all()
            return True

    def _handle_line(self, client: Client, line: str) -> bool:
        """Queue the line for the next prompt, or act on it. Return whether to read more lines."""
        with self._changed:
            if self.client is not client:
                return False
            is_first_line, client.awaits_first_line = client.awaits_first_line, False
            if is_first_line and line.strip() == EVENTS_REQUEST:
                client.wants_events = True
                line = _SHOW_PROMPT
            elif self.prompt_thread_id is None and line.strip() in ("interrupt", "\x03"):
                self._interrupt_main_thread()
                return True
            elif line == "\x03" and self._can_abort_command():
                self._is_abort_requested = True
                self._input_lines.clear()  # as a terminal does
                signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPT_SIGNAL)
                return True
            elif line == "\x03":
                line = _SHOW_PROMPT
            if len(self._input_lines) >= _MAX_INPUT_LINES:
                client.send("Too many lines at a time.\n")
                self.detach_client()
                return False
            # Without a prompt, an empty line must not repeat a command.
            if self.prompt_thread_id is not None or (line.strip() and line != _SHOW_PROMPT):
                self._input_lines.append(line)
            self._changed.notify_all()
            return True

    def _can_abort_command(self) -> bool:
        return self._command_thread_id is not None and not self._is_reading and self._on_interrupt is not None

    def _handle_end_of_input(self, client: Client) -> None:
        """Keep the client attached until its queued lines are used."""
        with self._changed:
            client.is_input_closed = True
            if self.client is not client:
                client.close()
            self._write_note()
            self._changed.notify_all()

    def detach_client(self) -> None:
        with self._changed:
            if self.client is not None:
                self.client.close()
            self.client = self._greeted_client = None
            self._input_lines.clear()
            self._write_note()

    def write(self, text: str) -> None:
        """Send the text to the client, or keep it for the next one."""
        with self._changed:
            if self.client is None or self.client is not self._greeted_client:
                self._unsent_output = (self._unsent_output + text)[-_MAX_UNSENT_SIZE:]
            elif not self.client.send(text):
                self.detach_client()

    def send_event(self, event: Dict[str, Any]) -> None:
        """Send an event as one line, if the client wants events. Call it before the text that the event belongs to."""
        with self._changed:
            if self.client is not None and self.client is self._greeted_client and self.client.wants_events:
                self.write(f"\x1e{json.dumps(event)}\n")

    # --- prompt

    def read_line(self, debugger: SupportsPrompt) -> Optional[str]:
        """Return the client's next line, or None if no client connects before the timeout."""
        self._is_reading = True
        try:
            return self._wait_for_line(debugger)
        finally:
            self._is_reading = False

    def _wait_for_line(self, debugger: SupportsPrompt) -> Optional[str]:
        deadline: Optional[float] = None
        with self._changed:
            while True:
                if self.client is None:
                    if deadline is None:
                        deadline = time.monotonic() + debugger.timeout
                        self._announce_wait(debugger.timeout)
                    remaining = deadline - time.monotonic() if debugger.timeout else 60.0
                    if remaining <= 0:
                        return None
                    self._changed.wait(min(60.0, remaining))
                elif self.client is not self._greeted_client:
                    deadline = None
                    self._greet_client(debugger)
                elif self._input_lines:
                    line = self._input_lines.popleft()
                    if line != _SHOW_PROMPT:
                        return line
                    debugger.show_prompt()
                elif self.client.is_input_closed:
                    self.detach_client()
                else:
                    self._changed.wait(60.0)

    def _greet_client(self, debugger: SupportsPrompt) -> None:
        """Send the unsent output to a new client, or else the location and the prompt."""
        unsent, self._unsent_output = self._unsent_output, ""
        self._greeted_client = self.client
        self._note.deadline = None
        self._write_note()
        if unsent:
            debugger.send_location_event()
            self.write(unsent)
        else:
            debugger.show_location()
            debugger.show_prompt()

    def acquire_prompt(self) -> None:
        """Wait until this thread can have the prompt."""
        thread_id = threading.get_ident()
        with self._changed:
            while True:
                stepping_thread_id, priority_end = self._step_priority
                remaining = priority_end - time.monotonic() if stepping_thread_id != thread_id else 0.0
                if self.prompt_thread_id is None and remaining <= 0:
                    break
                self._changed.wait(remaining if self.prompt_thread_id is None else 60.0)
            self.prompt_thread_id = thread_id
            name = threading.current_thread().name
            if self._last_thread_name not in ("", name):
                self.write(f"[now in thread {name}]\n")
            self._last_thread_name = name

    def release_prompt(self, is_stepping: bool) -> None:
        """Let the program run, or another thread have the prompt."""
        with self._changed:
            self.prompt_thread_id = None
            priority_end = time.monotonic() + _STEP_PRIORITY_TIMEOUT if is_stepping else 0.0
            self._step_priority = (threading.get_ident(), priority_end)
            self._unsent_output = ""
            self.send_event({"event": "running"})
            self._note.is_stopped, self._note.deadline = False, None
            self._write_note()
            self._handle_queued_interrupt()
            self._changed.notify_all()

    # --- interrupts

    def _handle_queued_interrupt(self) -> None:
        if self.prompt_thread_id is None and self._input_lines and self._input_lines[0].strip() == "interrupt":
            self._input_lines.popleft()
            self._interrupt_main_thread()

    def _interrupt_main_thread(self) -> None:
        if self._on_interrupt is None:
            self.write("It cannot be interrupted: its main thread never came by paipdb, or uses SIGURG itself.\n")
        else:
            self._is_interrupt_requested = True
            signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPT_SIGNAL)

    @contextlib.contextmanager
    def allow_abort(self) -> Iterator[None]:
        """Let Ctrl-C abort the command that this thread runs meanwhile."""
        self._command_thread_id = threading.get_ident()
        try:
            yield
        finally:
            self._command_thread_id = None

    def _handle_signal(self, signal_number: int, frame: Optional[types.FrameType]) -> None:
        is_abort, self._is_abort_requested = self._is_abort_requested, False
        if is_abort and self._command_thread_id == threading.get_ident() and not self._is_reading:
            raise KeyboardInterrupt
        if self._is_interrupt_requested and self._on_interrupt is not None and self.pid == os.getpid():
            self._is_interrupt_requested = False
            self._on_interrupt(frame)

    # --- log and note

    def set_location(self, reason: str, file: str, line: int, function: str) -> None:
        """Report to the platform where and why the program is stopped."""
        with self._changed:
            self._note.set_location(reason, file, line, function)
            self._write_note()

    def _announce_wait(self, timeout: float) -> None:
        """Report in the log and to the platform that the program waits for a client."""
        self._note.deadline = time.time() + timeout if timeout else None
        self._write_note()
        job, task = get_job_and_task()
        end = time.strftime(" until %H:%M:%S UTC", time.gmtime(self._note.deadline)) if self._note.deadline else ""
        location = "{}:{}{}".format(shorten_path(self._note.file), self._note.line, f" ({task})" if task else "")
        netcat_command = f"nc {self.listener.address} {self.listener.port}{self._format_token_hint()}"
        debug_command = " ".join(["holdfast debug", job, task]).rstrip() if job else ""
        write_log(f"paipdb: waiting at {location}{end}; attach with: {debug_command or netcat_command}")
        if debug_command:
            write_log(f"paipdb: or by its port: {netcat_command}")

    def _format_token_hint(self) -> str:
        """Return the token, or where it is shown. More users can read a job's log than can connect to its tasks."""
        if not self.listener.token:
            return ""
        return "; the job's page shows the token" if self._note.is_written else f", token {self.listener.token}"

    def _write_note(self) -> None:
        if self.pid == os.getpid():
            is_attached = self.client is not None and not self.client.is_input_closed
            self._note.write(self.listener.port, self.listener.is_local, self.listener.token, is_attached)

    # --- end

    def close(self) -> None:
        with self._changed:
            self._note.remove()
            self.detach_client()
            self.listener.close()

    def close_copies(self) -> None:
        """In a forked child, close its copies of the sockets. The parent keeps its client and port."""
        self.listener.close(is_copy=True)
        if self.client is not None:
            self.client.connection.close()


def _is_signal_unused(signal_number: int) -> bool:
    handler = signal.getsignal(signal_number)
    is_inherited = getattr(handler, "__func__", None) is DebugServer._handle_signal  # in a forked child
    return handler in (signal.SIG_DFL, signal.SIG_IGN) or is_inherited


_server_lock = threading.RLock()  # reentrant: a signal handler may run while it is held
_server: Optional[DebugServer] = None


def get_or_create_server() -> DebugServer:
    """Return the server of this process. A forked child creates its own."""
    global _server
    with _server_lock:
        if _server is None or _server.pid != os.getpid():
            if _server is not None:
                _server.close_copies()
            _server = DebugServer()
        return _server


def close_server() -> None:
    if _server is not None and _server.pid == os.getpid():
        _server.close()


def _reset_after_fork() -> None:
    global _server, _server_lock
    _server_lock = threading.RLock()
    if _server is not None:
        _server.close_copies()
        _server = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
