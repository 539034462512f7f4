"""Python's tracebacks in a log: their exceptions, their frames, and which came of which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from holdfast.core.verdicts import Frame

from .log_text import LogText

_HEADER = b"traceback (most recent call last)"
_SYNTAX = (b"syntaxerror:", b"indentationerror:", b"taberror:")
MAX_COUNT = 40  # tracebacks that are looked at, from the end
FIRST = 6  # and from the beginning
MAX_LENGTH = 400  # lines of one
MESSAGE = 12  # lines of an exception's message
_FRAME = re.compile(r'[\s>]{0,40}File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?')
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,150})(?:\([\w.]{1,100}\))?(?:: ?(?P<message>.{0,400}))?$")
_DURING = "During handling of the above exception, another exception occurred:"
_CAUSE = "The above exception was the direct cause of the following exception:"
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^/run/holdfast/|^/usr/lib/|\.pyx$"
    r"|^<frozen |^<string>$|^<__array_function__"
)
_COPIED = re.compile(r"(?:^|/)(?:libs?|vendor(?:ed)?|third[_-]party|external|\.?venv|env)/")
_NOTEBOOK = re.compile(r"\s{0,4}(?P<type>[A-Za-z_][\w.]{0,100}) {2,200}Traceback \(most recent call last\)")
_CELL = re.compile(
    r"Cell In ?\[\d{1,6}\], line (?P<cell>\d{1,9})"
    r"|File (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})(?:, in (?P<function>\w{1,100}))?"
)
_BOXED = re.compile(r"\u2502 (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9}) in (?P<function>[^\s\u2502]{1,100})")
# What Python says before a traceback of something that it went on after, at its end as a rule.
_IGNORED = ("Exception ignored in", "Exception ignored on", "Error in atexit", "exception was never retrieved")
_LOGGED = re.compile(r"\b(?:error|warn|warning|critical|exception|failed|failure|retry|retrying)\b", re.IGNORECASE)
_NO_EXCEPTION = frozenset({"Traceback", "File", "During", "The", "Original"})


@dataclass(slots=True)
class Trace:
    """One exception with its frames."""

    start: int  # line of its header
    at: int  # line that names the exception
    end: int  # last line of its message
    type: str
    message: str
    frames: tuple[Frame, ...]
    prefix: str = ""  # what stands before each of its lines, such as a rank
    came_of: Trace | None = None  # the exception before it in its chain
    deliberate: bool = False  # it was raised because of that one
    logged: bool = False  # the program tells of it in words of its own: it may have gone on

    @property
    def own_frame(self) -> Frame | None:
        """The last frame in the user's own code. Copies of libraries below it are not, where there is other code."""
        own = [frame for frame in self.frames if not _LIBRARY.search(frame.file)]
        if not own:
            return None
        home = own[0].file.rpartition("/")[0] + "/" if "/" in own[0].file else ""
        beside = [frame for frame in own if frame.file.startswith(home)]
        written = [frame for frame in beside if not _COPIED.search(frame.file[len(home) :])]
        return written[-1] if written and _COPIED.search(own[-1].file) else own[-1]

    @property
    def raised_in(self) -> str:
        """The last frame as file:function, without folders."""
        last = self.frames[-1] if self.frames else None
        return f"{last.file.rsplit('/', 1)[-1]}:{last.function}" if last else ""

    @property
    def name(self) -> str:
        """Of its exception, without the modules."""
        return self.type.rsplit(".", 1)[-1]

    def chain(self) -> list[Trace]:
        """The exceptions that led to it, and itself; the first one first."""
        found: list[Trace] = []
        trace: Trace | None = self
        while trace is not None and len(found) < MAX_COUNT:
            found.append(trace)
            trace = trace.came_of
        return found[::-1]


def find_traces(text: LogText) -> list[Trace]:
    """In the order of their lines, each linked to what it came of."""
    headers = {text.number_at(place) for place in text.places(_HEADER, MAX_COUNT)}
    headers |= {text.number_at(place) for place in text.first_places(_HEADER, FIRST)}
    traces: list[Trace] = []
    for number in sorted(headers):
        if text.is_time_up():
            break
        before = text.line(number - 1) if number else ""
        if any(sign in before for sign in _IGNORED):
            continue
        if not traces or number > traces[-1].end or traces[-1].prefix:
            found = _read(text, number) or _read_notebook(text, number) or _read_boxed(text, number)
            for trace in found:
                trace.logged = _LOGGED.search(before) is not None
            traces += found
    traces += [trace for trace in _syntax_errors(text) if not any(t.start <= trace.at <= t.end for t in traces)]
    traces.sort(key=lambda trace: trace.at)
    _link(text, traces)
    return traces


def has_torn(text: LogText) -> bool:
    """Whether other output stands within the last traceback, so that it cannot be read as one."""
    place = next(text.places(_HEADER, 1), None)
    if place is None:
        return False
    header = text.number_at(place)
    found = _read(text, header) or _read_notebook(text, header) or _read_boxed(text, header)
    return not found or (found[-1].type[0].islower() and "." not in found[-1].type)


def _read(text: LogText, header: int) -> list[Trace]:
    """One, or several where an exception's message holds the traceback of another process."""
    first = text.line(header)
    prefix = _prefix(first[: first.lower().index("traceback (most")], text, header)
    frames: list[Frame] = []
    number = header + 1
    skipped = 0
    last = min(len(text), header + MAX_LENGTH)
    while number < last:
        line = _without(prefix, text.line(number))
        if line is None:
            skipped += 1
            if skipped > 50:
                return []
            number += 1
            continue
        frame = _FRAME.match(line)
        if frame:
            number, code = _code(text, number + 1, prefix, last)
            frames.append(_frame(frame, code))
            continue
        if line.strip() and not line[0].isspace():
            found = _EXCEPTION.match(line.rstrip())
            if found and frames and found["type"] not in _NO_EXCEPTION:
                return _ended(text, header, number, prefix, found, frames)
            if "Traceback (most recent call last)" not in line:  # those of several processes may be mixed
                return []
        number += 1
    return []


def _read_notebook(text: LogText, header: int) -> list[Trace]:
    """As IPython shows it: the exception before and after, cells and files in between."""
    head = _NOTEBOOK.match(text.line(header))
    if not head:
        return []
    frames: list[Frame] = []
    for number in range(header + 1, min(len(text), header + MAX_LENGTH)):
        line = text.line(number)
        found = _CELL.match(line)
        if found:
            place = found["file"] or "cell"
            at = int(found["line"] or found["cell"])
            frames.append(Frame(file=place, line=at, function=found["function"] or ""))
        elif frames and line.startswith(f"{head['type']}:"):
            message = line[len(head["type"]) + 1 :].strip()
            return [Trace(header, number, number, head["type"], message, tuple(frames))]
    return []


def _read_boxed(text: LogText, header: int) -> list[Trace]:
    """As the library rich shows it: the frames in a box, the exception below."""
    if not text.line(header).lstrip().startswith("\u256d"):
        return []
    frames: list[Frame] = []
    for number in range(header + 1, min(len(text), header + MAX_LENGTH)):
        line = text.line(number)
        found = _BOXED.match(line)
        if found:
            frames.append(Frame(file=found["file"], line=int(found["line"]), function=found["function"]))
        elif frames and not line.startswith(("\u2502", "\u2570")) and line.strip():
            named = _EXCEPTION.match(line.rstrip())
            if not named:
                return []
            return [Trace(header, number, number, named["type"], named["message"] or "", tuple(frames))]
    return []


def _ended(text: LogText, start: int, at: int, prefix: str, found: re.Match[str], frames: list[Frame]) -> list[Trace]:
    end, lines = at, [found["message"] or ""]
    for number in range(at + 1, min(len(text), at + MESSAGE)):
        line = _without(prefix, text.line(number))
        if line is None or _FRAME.match(line):
            break
        if not line.strip():
            if lines[0].endswith(":") and number == at + 1:
                continue
            break
        if "Traceback (most recent" in line or not (line[0].isspace() or lines[0].endswith(":") or "NCCL" in lines[0]):
            break
        end = number
        lines.append(line.strip())
    trace = Trace(start, at, end, found["type"], "\n".join(lines), tuple(frames), prefix)
    inner = _inside(text, end + 1, prefix)
    if inner is not None:  # such as Ray's: the frames of the other process follow
        trace.came_of = inner
        trace.deliberate = True
        trace.end = inner.end
        return [inner, trace]
    return [trace]


def _inside(text: LogText, number: int, prefix: str) -> Trace | None:
    first = _without(prefix, text.line(number)) if number < len(text) else None
    if first is None or not _FRAME.match(first):
        return None
    start, frames = number, list[Frame]()
    last = min(len(text), start + MAX_LENGTH)
    while number < last:
        line = _without(prefix, text.line(number))
        frame = _FRAME.match(line) if line else None
        if frame:
            number, code = _code(text, number + 1, prefix, last)
            frames.append(_frame(frame, code))
            continue
        found = _EXCEPTION.match(line.rstrip()) if line else None
        if not found:
            return None
        return Trace(start, number, number, found["type"], found["message"] or "", tuple(frames), prefix)
    return None


def _code(text: LogText, number: int, prefix: str, last: int) -> tuple[int, str]:
    """The line of code below a frame, and where to go on: after the signs that point into it, at `last` at the
    latest."""
    code = ""
    while number < last:
        line = _without(prefix, text.line(number))
        if line is None or not line.startswith("    ") or _FRAME.match(line):
            break
        if not code and line.strip(" ~^"):
            code = line.strip()[:200]
        number += 1
    return number, code


def _frame(found: re.Match[str], code: str) -> Frame:
    return Frame(file=found["file"], line=int(found["line"]), function=(found["function"] or "").strip(), code=code)


def _prefix(before: str, text: LogText, header: int) -> str:
    """What stands before every line, such as `[rank0]: `, as a pattern; empty where only the first has it."""
    if not before.strip() or len(before) > 120 or header + 1 >= len(text):
        return ""
    shape = re.sub(r"\d+", r"\\d{1,20}", re.escape(before))
    return shape if re.match(shape, text.line(header + 1)) else ""


def _without(prefix: str, line: str) -> str | None:
    if not prefix:
        return line
    found = re.match(prefix, line)
    return line[found.end() :] if found else None


def _syntax_errors(text: LogText) -> Iterator[Trace]:
    """Of a program that could not be read at all, Python shows the place without a header."""
    for literal in _SYNTAX:
        for place in text.places(literal, 4):
            at = text.number_at(place)
            found = _EXCEPTION.match(text.line(at).rstrip())
            if not found:
                continue
            for number in range(at - 1, max(at - 5, -1), -1):
                frame = _FRAME.match(text.line(number))
                if frame:
                    _, code = _code(text, number + 1, "", at)
                    yield Trace(number, at, at, found["type"], found["message"] or "", (_frame(frame, code),))
                    break


def _link(text: LogText, traces: list[Trace]) -> None:
    for before, after in pairwise(traces):
        if after.came_of is not None or after.start <= before.at:
            continue
        if after.start - before.end > 40:
            continue
        between = "\n".join(text.line(number) for number in range(before.end + 1, after.start))
        if _CAUSE in between:
            after.came_of, after.deliberate = before, True
        elif _DURING in between:
            after.came_of, after.deliberate = before, _raised_for(before, after)


def _raised_for(before: Trace, after: Trace) -> bool:
    """It was raised on purpose while another was dealt with: by the user's own code, or by a library within the call
    that failed first."""
    own, earlier = after.own_frame, before.own_frame
    if own is not None and own.code.startswith("raise "):
        return True
    last = after.frames[-1] if after.frames else None
    if last is None or last is own or not last.code.startswith("raise "):
        return False
    return earlier is None or own is None or (earlier.file, earlier.line) == (own.file, own.line)
