"""Of all that looks like an error in one log: the one that was the cause.

Errors that stand close together are one block. The last block with an error of its own decides: a program that tells of
an error and goes on has left it behind. What only tells that something else failed gives way to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.core.verdicts import Fault, Frame

from .hits import Hit, find_hits
from .log_text import LogText
from .rulebook import Rule, load_rules
from .tracebacks import Trace, find_traces

TOGETHER = 3  # lines between errors of one block
NEAR_END = 25  # healthy lines after an error that leave it beyond doubt
FAR = 80  # healthy lines after which a program had gone on
FAR_LINE = 20  # the same after a line that looks like an error
FAR_WEAK = 6  # the same after an error that no rule really knows
FAR_BACK = 300  # the same before an error that only tells of another
PLAIN = 40  # priority of an exception that no rule knows
TELLING = 50  # priority from which an exception says more than one that was raised because of it
WEAK = 30  # priority below which a line counts only where there is nothing else
DECISIVE = 60  # priority from which an error that goes with the exit code needs no other
STRONG = 80  # priority of what counts even right after an exception


@dataclass(frozen=True, slots=True)
class Suspect:
    start: int  # lines
    end: int
    rule: Rule | None  # None: an exception that no rule knows
    parts: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    healthy: int = 0  # lines after it that tell of nothing bad
    outer: Trace | None = None  # the last exception of its chain

    @property
    def fault(self) -> Fault:
        return self.rule.fault if self.rule else Fault.PYTHON_EXCEPTION

    @property
    def priority(self) -> int:
        return self.rule.priority if self.rule else PLAIN

    @property
    def follower(self) -> bool:
        return self.rule is not None and self.rule.follower

    @property
    def frame(self) -> Frame | None:
        """The place in the user's own code."""
        found = self.trace.own_frame if self.trace else None
        return found or (self.outer.own_frame if self.outer else None)

    @property
    def lines(self) -> tuple[int, int]:
        """Those to show."""
        return (self.trace.at, self.trace.end) if self.trace else (self.start, self.end)


def find_suspect(text: LogText, code: int | None, rules: Sequence[Rule] | None = None) -> Suspect | None:
    """The cause that the log tells, by these rules or by all; None: it tells none."""
    traces = find_traces(text)
    hits = find_hits(text, load_rules() if rules is None else rules, code)
    suspects = sorted(_of_traces(traces, hits) + _of_lines(traces, hits), key=lambda each: (each.start, each.end))
    return _Choosing(text, suspects).choose()


def _of_traces(traces: Sequence[Trace], hits: Sequence[Hit]) -> list[Suspect]:
    """One for each chain of exceptions."""
    inner = {id(trace.came_of) for trace in traces}
    found = []
    for trace in traces:
        if id(trace) in inner:
            continue
        chain = trace.chain()
        relevant = chain[_last_independent(chain) :]
        each = [_of_trace(one, hits) for one in relevant]
        best = _telling(each)
        end = max(one.end for one in chain)
        found.append(Suspect(chain[0].start, end, best.rule, best.parts, best.trace, outer=trace))
    return found


def _telling(chain: Sequence[Suspect]) -> Suspect:
    """Of exceptions that were raised because of each other: the first that a rule knows well, else the last."""
    best = max(chain, key=lambda suspect: (not suspect.follower, suspect.priority))
    first, last = chain[0].trace, chain[-1].trace
    if first and last and (first.name, first.message) == (last.name, last.message):
        return chain[0]  # the same, handed on by another process
    return best if best.priority >= TELLING or best.follower else chain[-1]


def _last_independent(chain: Sequence[Trace]) -> int:
    """Where the last exception stands that was not raised because of the one before it."""
    return max((number for number, trace in enumerate(chain) if not trace.deliberate), default=0)


def _of_trace(trace: Trace, hits: Sequence[Hit]) -> Suspect:
    own = [hit for hit in hits if trace.at <= hit.line <= trace.end and _is_there(trace, hit)]
    best = max(own, key=lambda hit: hit.rule.priority, default=None)
    if best is not None and best.rule.priority < PLAIN and not best.rule.follower:
        best = None  # a rule for any line says less than the exception does
    return Suspect(trace.start, trace.end, best.rule if best else None, best.parts if best else {}, trace)


def _is_there(trace: Trace, hit: Hit) -> bool:
    return not hit.rule.within or trace.raised_in in hit.rule.within


def _of_lines(traces: Sequence[Trace], hits: Sequence[Hit]) -> list[Suspect]:
    """Of each line the rule that counts most; lines of tracebacks are told by these."""
    found: dict[int, Hit] = {}
    for hit in hits:
        if hit.rule.exception or any(trace.start <= hit.line <= trace.end for trace in traces):
            continue
        if hit.line not in found or found[hit.line].rule.priority < hit.rule.priority:
            found[hit.line] = hit
    return [Suspect(line, line, hit.rule, hit.parts) for line, hit in found.items()]


class _Choosing:
    def __init__(self, text: LogText, suspects: Sequence[Suspect]) -> None:
        self._text = text
        self._suspects = suspects
        self._covered = {line for each in suspects if each.trace is None for line in range(each.start, each.end + 1)}
        self._spans = [(each.start, each.end) for each in suspects if each.trace is not None]

    def choose(self) -> Suspect | None:
        chosen = self._by_code() or self._from_blocks() or self._lone_exception()
        return self._cause_of(chosen) if chosen else None

    def _by_code(self) -> Suspect | None:
        """An error that goes with the very exit code, unless an exception came after it."""
        strong = [each for each in self._suspects if each.priority >= DECISIVE and not each.follower]
        fitting = [each for each in strong if each.rule and each.rule.codes]
        last = fitting[-1] if fitting else None
        if last is None or any(each.trace and each.start > last.end and not each.follower for each in self._suspects):
            return None
        return self._measured(last, len(self._text), FAR)

    def _from_blocks(self) -> Suspect | None:
        """From the end backwards, over blocks that only tell of others."""
        follower: Suspect | None = None
        until, limit = len(self._text), FAR
        for block in reversed(self._blocks()):
            own = [each for each in block if not each.follower]
            if own:
                chosen = _of_block(own)
                most = limit if follower or chosen.trace else FAR_LINE if chosen.priority >= WEAK else FAR_WEAK
                return self._measured(chosen, until, most, block[-1].end) or follower
            if follower is None:
                follower = self._measured(block[0], until, limit, block[-1].end)
                if follower is None:
                    return None
                limit = FAR_BACK
            until = block[0].start
        return follower

    def _lone_exception(self) -> Suspect | None:
        """Long before the end, but the only error that there is: what came after it may have been cleaning up."""
        own = [each for each in self._suspects if not each.follower and each.priority >= WEAK]
        if len(own) != 1 or own[0].trace is None or own[0].trace.logged:
            return None
        return replace(own[0], healthy=FAR)

    def _blocks(self) -> list[list[Suspect]]:
        blocks: list[list[Suspect]] = []
        end = -1
        for each in self._suspects:
            if blocks and self._healthy(end + 1, each.start, TOGETHER + 1) <= TOGETHER:
                blocks[-1].append(each)
            else:
                blocks.append([each])
            end = max(end, each.end)
        return blocks

    def _measured(self, suspect: Suspect, until: int, limit: int, end: int | None = None) -> Suspect | None:
        """With the healthy lines that came after it; None when they are too many."""
        healthy = self._healthy((suspect.end if end is None else end) + 1, until, limit + 1)
        if healthy > limit:
            return None
        return replace(suspect, healthy=healthy)

    def _healthy(self, start: int, end: int, most: int) -> int:
        """Lines from `start` to before `end` that say something else; at most so many are counted."""
        gap = self._text.gap
        if gap is not None and start < gap < end:
            return most
        count = 0
        for number in range(start, end):
            if count >= most:
                break
            if number not in self._covered and self._text.begins(number) and not self._in_trace(number):
                count += 1
        return count

    def _in_trace(self, number: int) -> bool:
        return any(start <= number <= end for start, end in self._spans)

    def _cause_of(self, suspect: Suspect) -> Suspect:
        """What failed before and led to it, such as the download of a file that is missing now."""
        for each in reversed(self._suspects):
            if each.end >= suspect.start or each.rule is None or suspect.fault not in each.rule.leads_to:
                continue
            return self._measured(each, suspect.start, FAR) or suspect
        return suspect


def _of_block(own: Sequence[Suspect]) -> Suspect:
    """The last exception, unless something stronger came after it; without one, the last error, and of several that
    one rule knows the first."""
    traces = [each for each in own if each.trace]
    if traces:
        last = traces[-1]
        later = [each for each in own if each.start > last.end and each.priority >= STRONG]
        return later[-1] if later else last
    strong = [each for each in own if each.priority >= WEAK] or list(own)
    first = len(strong) - 1
    while first > 0 and strong[first - 1].rule is strong[-1].rule:
        first -= 1
    return strong[first]
