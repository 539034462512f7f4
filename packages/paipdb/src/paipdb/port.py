"""Between the one client and the threads of the program, of which one at a time has the prompt."""

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

from .clients import EVENTS, Client
from .door import Door
from .notes import Note
from .prompt import Prompt
from .task import job_and_task, log, shown

_MOST_LINES = 1000  # sent ahead of the prompts they are for
_MOST_UNSENT = 64 * 1024  # characters kept for a client that is yet to come
_STEP_GRACE = 1.0  # seconds in which a thread that makes a step comes before others that wait for the prompt
_SHOW = "\0show"  # among a client's lines: show the prompt again
_WAKE = signal.SIGURG  # does nothing by itself, so it harms nobody who gets one by mistake
_RUNNING = "The program is running. It stops at its next breakpoint; type interrupt (or Ctrl-C) to stop it now.\n"


class Port:
    """One for each process; see the_port."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.door = Door(self._busy, self._serve)
        self.client: Optional[Client] = None
        self.holder: Optional[int] = None
        self.gave_up = False  # a wait was in vain: breakpoints are passed over until a client comes
        self._changed = threading.Condition()  # guards what is above and below
        self._greeted: Optional[Client] = None
        self._lines: Deque[str] = collections.deque()
        self._unsent = ""
        self._stepper = (0, 0.0)  # the thread that makes a step, and until when it comes first
        self._last_thread = ""
        self._interrupt: Optional[Callable[[Optional[types.FrameType]], None]] = None
        self._interrupting = False
        self._aborting = False
        self._command: Optional[int] = None  # the thread that carries one out
        self._reading = False
        self._note = Note()

    def open(self, number: Optional[int], interrupt: Callable[[Optional[types.FrameType]], None]) -> None:
        """`interrupt` is called in the main thread when a client asks for it, with the frame it is in."""
        if not self.door.is_open and "multiprocessing.util" in sys.modules:  # whose workers end without atexit
            sys.modules["multiprocessing.util"].Finalize(None, close_port, exitpriority=0)
        self.door.open(number)
        if self._interrupt is None and threading.current_thread() is threading.main_thread() and _is_free(_WAKE):
            with contextlib.suppress(ValueError):  # an interpreter within another program has no signals
                signal.signal(_WAKE, self._woken)
                self._interrupt = interrupt

    # --- the client

    def _busy(self) -> str:
        client = self.client
        if client is None or (client.leaving and not self._lines):
            return ""
        since = time.strftime("%H:%M:%S UTC", time.gmtime(client.since))
        return f"Another client is at this debugger, from {client.name} since {since}. Try again later.\n"

    def _serve(self, client: Client) -> None:
        try:
            client.wants_events = client.asks_for_events()
            if self._attach(client):
                line = client.read_line()
                while line is not None and self._take(client, line):
                    line = client.read_line()
        finally:
            self._leave(client)

    def _attach(self, client: Client) -> bool:
        with self._changed:
            refusal = self._busy()
            if refusal:
                client.send(refusal)
                return False
            self.detach()
            self.client = client
            self.gave_up = False
            if self.holder is None:
                self._greeted = client
                client.send(_RUNNING)
            self._tell()
            self._changed.notify_all()
            return True

    def _take(self, client: Client, line: str) -> bool:
        """Whether to read on."""
        with self._changed:
            if self.client is not client:
                return False
            fresh, client.fresh = client.fresh, False
            if fresh and line.strip() == EVENTS:
                client.wants_events = True
                line = _SHOW
            elif self.holder is None and line.strip() in ("interrupt", "\x03"):
                self._wake_main()
                return True
            elif line == "\x03" and self._command is not None and not self._reading and self._interrupt is not None:
                self._aborting = True
                self._lines.clear()  # as a terminal does
                signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)
                return True
            elif line == "\x03":
                line = _SHOW
            if len(self._lines) >= _MOST_LINES:
                client.send("Too many lines at a time.\n")
                self.detach()
                return False
            if self.holder is not None or (line.strip() and line != _SHOW):  # Enter at no prompt repeats nothing
                self._lines.append(line)
            self._changed.notify_all()
            return True

    def _leave(self, client: Client) -> None:
        """It will send no more; what it has sent is still for prompts to come."""
        with self._changed:
            client.leaving = True
            if self.client is not client:
                client.close()
            self._tell()
            self._changed.notify_all()

    def detach(self) -> None:
        with self._changed:
            if self.client is not None:
                self.client.close()
            self.client = self._greeted = None
            self._lines.clear()
            self._tell()

    def write(self, text: str) -> None:
        with self._changed:
            if self.client is None or self.client is not self._greeted:
                self._unsent = (self._unsent + text)[-_MOST_UNSENT:]
            elif not self.client.send(text):
                self.detach()

    def event(self, facts: Dict[str, Any]) -> None:
        """For programs that show where the debugger stands: one line, before the text it belongs to."""
        with self._changed:
            if self.client is not None and self.client is self._greeted and self.client.wants_events:
                self.write(f"\x1e{json.dumps(facts)}\n")

    # --- the prompt

    def read_line(self, debugger: Prompt) -> Optional[str]:
        """The client's next line; waits for a client where there is none. None: none came in time."""
        self._reading = True
        try:
            return self._wait_for_line(debugger)
        finally:
            self._reading = False

    def _wait_for_line(self, debugger: Prompt) -> Optional[str]:
        until: Optional[float] = None
        with self._changed:
            while True:
                if self.client is None:
                    if until is None:
                        until = time.monotonic() + debugger.timeout
                        self._announce(debugger.timeout)
                    left = until - time.monotonic() if debugger.timeout else 60.0
                    if left <= 0:
                        return None
                    self._changed.wait(min(60.0, left))
                elif self.client is not self._greeted:
                    until = None
                    self._greet(debugger)
                elif self._lines:
                    line = self._lines.popleft()
                    if line != _SHOW:
                        return line
                    debugger.show_prompt()
                elif self.client.leaving:
                    self.detach()
                else:
                    self._changed.wait(60.0)

    def _greet(self, debugger: Prompt) -> None:
        unsent, self._unsent = self._unsent, ""
        self._greeted = self.client
        self._note.until = None
        self._tell()
        if unsent:
            debugger.tell_place()
            self.write(unsent)
        else:
            debugger.show_place()
            debugger.show_prompt()

    def take_turn(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while True:
                first, until = self._stepper
                left = until - time.monotonic() if first != me else 0.0
                if self.holder is None and left <= 0:
                    break
                self._changed.wait(left if self.holder is None else 60.0)
            self.holder = me
            name = threading.current_thread().name
            if self._last_thread not in ("", name):
                self.write(f"[now in thread {name}]\n")
            self._last_thread = name

    def give_turn(self, steps: bool) -> None:
        with self._changed:
            self.holder = None
            self._stepper = (threading.get_ident(), time.monotonic() + _STEP_GRACE if steps else 0.0)
            self._unsent = ""
            self.event({"event": "running"})
            self._note.waits, self._note.until = False, None
            self._tell()
            self._interrupt_if_asked()
            self._changed.notify_all()

    # --- interrupts

    def _interrupt_if_asked(self) -> None:
        if self.holder is None and self._lines and self._lines[0].strip() == "interrupt":
            self._lines.popleft()
            self._wake_main()

    def _wake_main(self) -> None:
        if self._interrupt is None:
            self.write("It cannot be interrupted: its main thread never came by paipdb, or uses SIGURG itself.\n")
        else:
            self._interrupting = True
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)

    @contextlib.contextmanager
    def command(self) -> Iterator[None]:
        """While a command of the client's is carried out, Ctrl-C ends that."""
        self._command = threading.get_ident()
        try:
            yield
        finally:
            self._command = None

    def _woken(self, number: int, frame: Optional[types.FrameType]) -> None:
        aborting, self._aborting = self._aborting, False
        if aborting and self._command == threading.get_ident() and not self._reading:
            raise KeyboardInterrupt
        if self._interrupting and self._interrupt is not None and self.pid == os.getpid():
            self._interrupting = False
            self._interrupt(frame)

    # --- telling the platform

    def stands(self, why: str, file: str, line: int, function: str) -> None:
        with self._changed:
            self._note.place(why, file, line, function)
            self._tell()

    def _announce(self, timeout: float) -> None:
        """Says in the log and to the platform that somebody is waited for."""
        self._note.until = time.time() + timeout if timeout else None
        self._tell()
        job, task = job_and_task()
        ends = time.strftime(" until %H:%M:%S UTC", time.gmtime(self._note.until)) if self._note.until else ""
        where = "{}:{}{}".format(shown(self._note.file), self._note.line, f" ({task})" if task else "")
        by_port = f"nc {self.door.address} {self.door.number}{self._token_to_log()}"
        by_name = " ".join(["holdfast debug", job, task]).rstrip() if job else ""
        log(f"paipdb: waiting at {where}{ends}; attach with: {by_name or by_port}")
        if by_name:
            log(f"paipdb: or by its port: {by_port}")

    def _token_to_log(self) -> str:
        """More people may read a job's log than may get inside it, so it is not told where there is another way."""
        if not self.door.token:
            return ""
        return "; the job's page shows the token" if self._note.is_told else f", token {self.door.token}"

    def _tell(self) -> None:
        if self.pid == os.getpid():
            attached = self.client is not None and not self.client.leaving
            self._note.write(self.door.number, self.door.is_local, self.door.token, attached)

    # --- the end

    def close(self) -> None:
        with self._changed:
            self._note.remove()
            self.detach()
            self.door.close()

    def abandon(self) -> None:
        """In a forked child: closes its copies, and leaves the parent's client and port alone."""
        self.door.close(is_copy=True)
        if self.client is not None:
            self.client.connection.close()


def _is_free(number: int) -> bool:
    handler = signal.getsignal(number)
    is_parents = getattr(handler, "__func__", None) is Port._woken  # in a forked child
    return handler in (signal.SIG_DFL, signal.SIG_IGN) or is_parents


_making = threading.RLock()  # a signal may come while it is held
_made: Optional[Port] = None


def the_port() -> Port:
    """This process's own: a forked child makes another."""
    global _made
    with _making:
        if _made is None or _made.pid != os.getpid():
            if _made is not None:
                _made.abandon()
            _made = Port()
        return _made


def close_port() -> None:
    if _made is not None and _made.pid == os.getpid():
        _made.close()


def _in_forked_child() -> None:
    global _made, _making
    _making = threading.RLock()
    if _made is not None:
        _made.abandon()
        _made = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
