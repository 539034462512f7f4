"""pdb over a TCP port: debug a program that runs where there is no terminal, such as a task of a batch job.

    python -m paipdb script.py args...      stops before the first line, and where the program crashes
    python -m paipdb -m module args...
    import paipdb; paipdb.settrace()        stops there

The program waits until a client connects: `nc HOST PORT`, or `holdfast debug JOB`. Its own input and output do not
change; the client receives only pdb's text. No dependencies, Python 3.6 or newer, Linux.
"""

import signal as _signal
import sys as _sys
from typing import Optional as _Optional

from .debugger import QUIT_CODE, post_mortem
from .debugger import stop_at_frame as _stop_at_frame
from .debugger import stop_from_signal_handler as _stop_from_signal_handler

__version__ = "0.1.0"
__all__ = ["QUIT_CODE", "handle_trap", "post_mortem", "set_trace", "settrace"]


def settrace(port: _Optional[int] = None) -> None:
    """Stop here until a client connects and continues the program.

    The default port is the one that the job requests under the name in DEBUG_PORT_NAME ("debug"), or a free one.
    """
    _stop_at_frame(_sys._getframe(1), port)


set_trace = settrace  # its name in OpenPAI


def handle_trap() -> None:
    """Open the debugger in the main thread at every SIGTRAP (`kill -TRAP PID`) from now on."""
    _signal.signal(_signal.SIGTRAP, lambda signal_number, frame: _stop_from_signal_handler(frame))
