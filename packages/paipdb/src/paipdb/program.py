"""`python -m paipdb`: a program under the debugger from its first line to its end or crash."""

import bdb
import os
import sys
import threading
import types
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

import paipdb

from .debugger import Debugger, is_internal, opened, post_mortem, stop_in, the_debugger
from .door import THREADS
from .ending import ending
from .port import Port, the_port

_USAGE = "usage: python -m paipdb [-c command] (-m module | script.py) [args ...]"


def main() -> NoReturn:
    """Runs a program once, under the debugger."""
    commands, argv = _options(sys.argv[1:])
    compiled, names = _module(argv) if argv[0] == "-m" else _script(argv)
    port = the_port()
    if not opened(port, None):
        raise SystemExit(1)
    Debugger.on_timeout = "exit"
    if hasattr(sys, "breakpointhook") and "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = lambda *_, **__: stop_in(sys._getframe(1), None)
    threading.settrace(_trace_new_thread)
    debugger = the_debugger()
    debugger.rcLines.extend(commands)
    import __main__

    __main__.__dict__.clear()
    __main__.__dict__.update(names)
    _run(debugger, port, compiled, __main__.__dict__)


def _options(argv: List[str]) -> Tuple[List[str], List[str]]:
    commands = []
    while len(argv) > 1 and argv[0] == "-c":
        commands.append(argv[1])
        argv = argv[2:]
    if argv[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n\n{paipdb.__doc__}")
        raise SystemExit(0)
    if not argv or argv == ["-m"] or (argv[0].startswith("-") and argv[0] != "-m"):
        sys.stderr.write(_USAGE + "\n")
        raise SystemExit(2)
    return commands, argv


def _script(argv: List[str]) -> Tuple[types.CodeType, Dict[str, Any]]:
    path = os.path.abspath(argv[0])
    sys.argv[:] = argv
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with open(path, "rb") as file:
            compiled = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as problem:
        raise SystemExit(f"paipdb: cannot read {argv[0]}: {problem.strerror}") from None
    except (SyntaxError, ValueError):
        _fail_before_start()
    return compiled, {"__name__": "__main__", "__file__": path, "__spec__": None, **_COMMON_NAMES}


def _module(argv: List[str]) -> Tuple[types.CodeType, Dict[str, Any]]:
    import runpy

    sys.argv[:] = argv[1:]
    try:
        _, spec, compiled = runpy._get_module_details(argv[1])  # type: ignore[attr-defined]
    except ImportError as problem:
        raise SystemExit(f"paipdb: {problem}") from None
    except Exception:
        _fail_before_start()
    sys.argv[0] = compiled.co_filename
    found = {"__file__": compiled.co_filename, "__package__": spec.parent, "__loader__": spec.loader, "__spec__": spec}
    return compiled, {"__name__": "__main__", **_COMMON_NAMES, **found}


_COMMON_NAMES = {"__builtins__": __builtins__, "__package__": None, "__doc__": None, "__cached__": None}


def _fail_before_start() -> NoReturn:
    kind, problem, trace = sys.exc_info()
    assert kind is not None
    assert problem is not None
    sys.excepthook(kind, problem, _without_internals(trace))
    raise SystemExit(1)


def _without_internals(trace: Optional[types.TracebackType]) -> Optional[types.TracebackType]:
    while trace is not None and is_internal(trace.tb_frame):
        trace = trace.tb_next
    return trace


def _run(debugger: Debugger, port: Port, compiled: types.CodeType, names: Dict[str, Any]) -> NoReturn:
    code: Any = 0
    try:
        debugger.run_as_main(compiled, names)
        said = "The program finished."
    except SystemExit as ended:
        code = ended.code
        said = f"The program exited via sys.exit(). Exit status: {code}"
    except Exception as problem:
        code = 1
        said = "The program ends with exit code 1."
        _look_at_crash(debugger, problem)
    if not ending:
        port.event({"event": "end", "code": code if isinstance(code, int) else int(code is not None)})
        port.write(said + "\n")
    raise SystemExit(code)


def _look_at_crash(debugger: Debugger, problem: Exception) -> None:
    trace = _without_internals(problem.__traceback__)
    problem.__traceback__ = trace
    sys.excepthook(type(problem), problem, trace)
    if trace is None:
        return
    debugger.crashed = True
    debugger.console.write(f"Uncaught exception: {type(problem).__name__}: {problem}\n")
    debugger.console.write("The program has stopped at the exception; c and q end it with exit code 1.\n")
    post_mortem(problem)


def _trace_new_thread(frame: types.FrameType, event: str, arg: Any) -> Optional[Callable[..., Any]]:
    """A thread that starts while there are breakpoints stops at them; others run at full speed."""
    sys.settrace(None)
    if not bdb.Breakpoint.bplist or threading.current_thread().name == THREADS:
        return None
    debugger = the_debugger()
    debugger.reset()
    debugger.botframe = frame.f_back
    debugger._set_stopinfo(debugger.botframe, None, -1)  # type: ignore[attr-defined]
    for file, line in bdb.Breakpoint.bplist:
        debugger.breaks.setdefault(file, [])
        if line not in debugger.breaks[file]:
            debugger.breaks[file].append(line)
    sys.settrace(debugger.trace_dispatch)
    return debugger.trace_dispatch(frame, event, arg)
