"""Choice of the cause among all errors of one log.

Errors close together form a block. The last block with a primary error decides: a program that logs an error and
continues has recovered from it. A secondary failure is replaced by its cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.core.verdicts import Fault, Frame

from .log_text import LogText
from .rule_hits import RuleHit, list_rule_hits
from .rulebook import Rule, load_rules
from .tracebacks import Traceback, find_tracebacks

MAX_BLOCK_GAP = 3  # healthy lines between errors of one block
MAX_HEALTHY_FOR_CERTAIN = 25  # healthy lines after an error that keep it certain
MAX_HEALTHY_LINES = 80  # healthy lines after an error that show that the program continued
MAX_HEALTHY_AFTER_LINE = 20  # the same after a line that looks like an error
MAX_HEALTHY_AFTER_WEAK = 6  # the same after an error that only a weak rule matches
MAX_HEALTHY_BEFORE_SECONDARY = 300  # the same before a secondary failure
DEFAULT_EXCEPTION_PRIORITY = 40  # priority of an exception that no rule matches
MIN_EXPLANATORY_PRIORITY = 50  # priority from which an exception explains more than one raised because of it
MIN_NORMAL_PRIORITY = 30  # priority below which a line counts only if there is no other error
MIN_DECISIVE_PRIORITY = 60  # priority from which an error for the exit code decides alone
MIN_STRONG_PRIORITY = 80  # priority that counts even after an exception


@dataclass(frozen=True, slots=True)
class Suspect:
    start: int  # lines
    end: int
    rule: Rule | None  # None: an exception that no rule matches
    parts: Mapping[str, str] = field(default_factory=dict)
    trace: Traceback | None = None
    healthy_line_count: int = 0  # lines after it without errors
    outer: Traceback | None = None  # the last exception of its chain

    @property
    def fault(self) -> Fault:
        return self.rule.fault if self.rule else Fault.PYTHON_EXCEPTION

    @property
    def priority(self) -> int:
        return self.rule.priority if self.rule else DEFAULT_EXCEPTION_PRIORITY

    @property
    def is_secondary(self) -> bool:
        return self.rule is not None and self.rule.follower

    @property
    def frame(self) -> Frame | None:
        """Last frame in the user's own code."""
        found = self.trace.own_frame if self.trace else None
        return found or (self.outer.own_frame if self.outer else None)

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line to show."""
        return (self.trace.at, self.trace.end) if self.trace else (self.start, self.end)


def find_suspect(text: LogText, code: int | None, rules: Sequence[Rule] | None = None) -> Suspect | None:
    """Return the cause found in the log with these rules (default: all), or None."""
    traces = find_tracebacks(text)
    hits = list_rule_hits(text, load_rules() if rules is None else rules, code)
    suspects = sorted(
        _collect_trace_suspects(traces, hits) + _collect_line_suspects(traces, hits),
        key=lambda each: (each.start, each.end),
    )
    return _SuspectChooser(text, suspects).choose_suspect()


def _collect_trace_suspects(traces: Sequence[Traceback], hits: Sequence[RuleHit]) -> list[Suspect]:
    """Return one suspect for each chain of exceptions."""
    inner = {id(trace.cause) for trace in traces}
    found = []
    for trace in traces:
        if id(trace) in inner:
            continue
        chain = trace.list_chain()
        last_independent = max((number for number, each in enumerate(chain) if not each.deliberate), default=0)
        relevant = chain[last_independent:]
        each = [_build_trace_suspect(one, hits) for one in relevant]
        best = _choose_from_chain(each)
        end = max(one.end for one in chain)
        found.append(Suspect(chain[0].start, end, best.rule, best.parts, best.trace, outer=trace))
    return found


def _choose_from_chain(chain: Sequence[Suspect]) -> Suspect:
    """Return the exception of a chain with the strongest rule, else the last one."""
    best = max(chain, key=lambda suspect: (not suspect.is_secondary, suspect.priority))
    first, last = chain[0].trace, chain[-1].trace
    if first and last and (first.name, first.message) == (last.name, last.message):
        return chain[0]  # the same exception, passed on by another process
    return best if best.priority >= MIN_EXPLANATORY_PRIORITY or best.is_secondary else chain[-1]


def _build_trace_suspect(trace: Traceback, hits: Sequence[RuleHit]) -> Suspect:
    own = [
        hit
        for hit in hits
        if trace.at <= hit.line <= trace.end and (not hit.rule.within or trace.raised_in in hit.rule.within)
    ]
    best = max(own, key=lambda hit: hit.rule.priority, default=None)
    if best is not None and best.rule.priority < DEFAULT_EXCEPTION_PRIORITY and not best.rule.follower:
        best = None  # a rule for any line explains less than the exception
    return Suspect(trace.start, trace.end, best.rule if best else None, best.parts if best else {}, trace)


def _collect_line_suspects(traces: Sequence[Traceback], hits: Sequence[RuleHit]) -> list[Suspect]:
    """Return the rule with the highest priority for each line outside tracebacks."""
    found: dict[int, RuleHit] = {}
    for hit in hits:
        if hit.rule.exception or any(trace.start <= hit.line <= trace.end for trace in traces):
            continue
        if hit.line not in found or found[hit.line].rule.priority < hit.rule.priority:
            found[hit.line] = hit
    return [Suspect(line, line, hit.rule, hit.parts) for line, hit in found.items()]


class _SuspectChooser:
    def __init__(self, text: LogText, suspects: Sequence[Suspect]) -> None:
        self._text = text
        self._suspects = suspects
        self._covered = {line for each in suspects if each.trace is None for line in range(each.start, each.end + 1)}
        self._spans = [(each.start, each.end) for each in suspects if each.trace is not None]

    def choose_suspect(self) -> Suspect | None:
        chosen = self._choose_by_code() or self._choose_from_blocks() or self._choose_lone_exception()
        return self._find_cause(chosen) if chosen else None

    def _choose_by_code(self) -> Suspect | None:
        """Return an error whose rule requires this exit code, unless an exception follows it."""
        strong = [each for each in self._suspects if each.priority >= MIN_DECISIVE_PRIORITY and not each.is_secondary]
        fitting = [each for each in strong if each.rule and each.rule.codes]
        last = fitting[-1] if fitting else None
        if last is None or any(
            each.trace and each.start > last.end and not each.is_secondary for each in self._suspects
        ):
            return None
        return self._add_healthy_line_count(last, len(self._text), MAX_HEALTHY_LINES)

    def _choose_from_blocks(self) -> Suspect | None:
        """Search backwards from the end, past blocks of secondary failures."""
        follower: Suspect | None = None
        until, limit = len(self._text), MAX_HEALTHY_LINES
        for block in reversed(self._group_blocks()):
            own = [each for each in block if not each.is_secondary]
            if own:
                chosen = _choose_from_block(own)
                most = (
                    limit
                    if follower or chosen.trace
                    else MAX_HEALTHY_AFTER_LINE
                    if chosen.priority >= MIN_NORMAL_PRIORITY
                    else MAX_HEALTHY_AFTER_WEAK
                )
                return self._add_healthy_line_count(chosen, until, most, block[-1].end) or follower
            if follower is None:
                follower = self._add_healthy_line_count(block[0], until, limit, block[-1].end)
                if follower is None:
                    return None
                limit = MAX_HEALTHY_BEFORE_SECONDARY
            until = block[0].start
        return follower

    def _choose_lone_exception(self) -> Suspect | None:
        """Return the only error even if it is far from the end: the output after it may be cleanup."""
        own = [each for each in self._suspects if not each.is_secondary and each.priority >= MIN_NORMAL_PRIORITY]
        if len(own) != 1 or own[0].trace is None or own[0].trace.logged:
            return None
        return replace(own[0], healthy_line_count=MAX_HEALTHY_LINES)

    def _group_blocks(self) -> list[list[Suspect]]:
        blocks: list[list[Suspect]] = []
        end = -1
        for each in self._suspects:
            if blocks and self._count_healthy_lines(end + 1, each.start, MAX_BLOCK_GAP + 1) <= MAX_BLOCK_GAP:
                blocks[-1].append(each)
            else:
                blocks.append([each])
            end = max(end, each.end)
        return blocks

    def _add_healthy_line_count(
        self, suspect: Suspect, until: int, limit: int, end: int | None = None
    ) -> Suspect | None:
        """Return the suspect with the number of healthy lines after it; None if there are too many."""
        healthy = self._count_healthy_lines((suspect.end if end is None else end) + 1, until, limit + 1)
        if healthy > limit:
            return None
        return replace(suspect, healthy_line_count=healthy)

    def _count_healthy_lines(self, start: int, end: int, most: int) -> int:
        """Count the healthy lines from `start` to before `end`, up to `most`."""
        gap = self._text.line_after_gap
        if gap is not None and start < gap < end:
            return most
        count = 0
        for number in range(start, end):
            if count >= most:
                break
            in_trace = any(start <= number <= end for start, end in self._spans)
            if number not in self._covered and not in_trace and self._text.is_entry_start(number):
                count += 1
        return count

    def _find_cause(self, suspect: Suspect) -> Suspect:
        """Return an earlier failure that led to it, such as the failed download of a missing file."""
        for each in reversed(self._suspects):
            if each.end >= suspect.start or each.rule is None or suspect.fault not in each.rule.leads_to:
                continue
            return self._add_healthy_line_count(each, suspect.start, MAX_HEALTHY_LINES) or suspect
        return suspect


def _choose_from_block(own: Sequence[Suspect]) -> Suspect:
    """Return the last exception, unless a stronger error follows it. Without an exception, return the last error; of
    several with the same rule, the first."""
    traces = [each for each in own if each.trace]
    if traces:
        last = traces[-1]
        later = [each for each in own if each.start > last.end and each.priority >= MIN_STRONG_PRIORITY]
        return later[-1] if later else last
    strong = [each for each in own if each.priority >= MIN_NORMAL_PRIORITY] or list(own)
    first = len(strong) - 1
    while first > 0 and strong[first - 1].rule is strong[-1].rule:
        first -= 1
    return strong[first]
