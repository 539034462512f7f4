"""For all tests."""

from __future__ import annotations

import signal

# Started in the background by a shell without job control, Ctrl-C is ignored by us and, unless we change that, by every
# program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
