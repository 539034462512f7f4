"""pdb over a TCP port: debug a program that runs where there is no terminal, such as a task of a batch job.

    python -m paipdb script.py args...      stops before the first line, and where the program crashes
    python -m paipdb -m module args...
    import paipdb; paipdb.settrace()        stops there

The program waits until somebody connects: `nc HOST PORT`, or `holdfast debug JOB`. Its own input and output stay what
they are; only pdb talks to the client. No dependencies, Python 3.6 or newer, Linux.
"""

import signal as _signal
import sys as _sys
from typing import Optional as _Optional

from .debugger import QUIT_CODE, post_mortem
from .debugger import stop_in as _stop_in
from .debugger import stop_in_handler as _stop_in_handler

__version__ = "0.1.0"
__all__ = ["QUIT_CODE", "handle_trap", "post_mortem", "set_trace", "settrace"]


def settrace(port: _Optional[int] = None) -> None:
    """Stops here until a client has connected and lets the program go on.

    Without a number, the port is the one the job asked for by the name in DEBUG_PORT_NAME ("debug"), or a free one.
    """
    _stop_in(_sys._getframe(1), port)


set_trace = settrace  # what OpenPAI called it


def handle_trap() -> None:
    """From now on SIGTRAP (`kill -TRAP PID`) opens the debugger where the main thread is."""
    _signal.signal(_signal.SIGTRAP, lambda number, frame: _stop_in_handler(frame))
