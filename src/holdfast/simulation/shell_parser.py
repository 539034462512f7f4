"""Parser for the simple commands of a shell script, without running it.

It is not a shell: quoted, substituted or unusual parts are marked as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    literal: bool = True  # it has no expansions


@dataclass(slots=True)
class SimpleCommand:
    """One command with its words, assignments and redirections."""

    words: list[Word] = field(default_factory=list)
    assigned_variables: list[str] = field(default_factory=list)
    write_targets: list[Word] = field(default_factory=list)
    read_sources: list[Word] = field(default_factory=list)
    optional: bool = False  # it may never run, or its failure is ignored

    @property
    def name(self) -> str:
        """Name of the command; empty if unknown."""
        return self.words[0].text if self.words and self.words[0].literal else ""


@dataclass(slots=True)
class Script:
    commands: list[SimpleCommand] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)


def parse_script(text: str) -> Script:
    reader = _ScriptParser(text)
    reader.parse()
    return reader.script


_BLANK_CHARS = " \t"
_REDIRECTIONS = ("<<<", "<<-", "<<", ">>", "<&", ">&", ">|", "<>", "<", ">")
_META_CHARS = " \t\n;&|()<>"
_CONDITION_KEYWORDS = frozenset({"if", "elif", "while", "until"})
_BODY_KEYWORDS = frozenset({"then", "else", "do"})
_SKIPPED_KEYWORDS = frozenset(
    {"!", "time", "{", "}", "then", "else", "do", "fi", "done", "esac", "if", "elif", "while", "until"}
)


class _ScriptParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.script = Script()
        self.current = SimpleCommand()
        self.in_condition = 0
        self.optional_depth = 0
        self.opened: list[str] = []  # open if, case and loops
        self.heredocs: list[tuple[str, bool]] = []
        self.after_or = False  # the next command may not run
        self.last_was_test = False
        self.at_case_pattern = False

    def parse(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char in _BLANK_CHARS or char == "\r":
                self.at += 1
            elif char == "#":
                self.at = self._find_line_end()
            elif self.at_case_pattern and char not in "\n" and not self._is_at_word("esac"):
                self._skip_pattern()
            elif char in "\n;&|()" and not self.text.startswith("&>", self.at):
                self._parse_operator(char)
            elif self._parse_redirection():
                continue
            elif not self.current.words and char == "[" and self.text[self.at + 1 : self.at + 2] in (" ", "[", "\t"):
                double = self.text.startswith("[[", self.at)
                self.at += 2 if double else 1
                self._add_word(Word("[[" if double else "["))
            else:
                self._add_word(self._parse_word())
        self._finish_command(failure_matters=True)

    # -- operators

    def _parse_operator(self, char: str) -> None:
        text, at = self.text, self.at
        if char == "\n":
            self.at += 1
            self._finish_command()
            self._skip_heredocs()
        elif text.startswith(("&&", "||"), at):
            self.at += 2
            self._finish_command(failure_matters=not text.startswith("||", at))
            self.after_or = text.startswith("||", at) or self.last_was_test
        elif text.startswith(";;", at):
            self.at += 2
            self._finish_command()
            self.at_case_pattern = "case" in self.opened
        elif char == "(" and len(self.current.words) == 1 and text[at + 1 :].lstrip(_BLANK_CHARS).startswith(")"):
            self.script.functions.add(self.current.words[0].text)
            self.current = SimpleCommand()
            self.at = text.index(")", at) + 1
        elif text.startswith("((", at) and not self.current.words:
            end = text.find("))", at)
            self.at = len(text) if end < 0 else end + 2
        else:
            self.at += 1
            self._finish_command()

    def _finish_command(self, *, failure_matters: bool = True) -> None:
        command, self.current = self.current, SimpleCommand()
        if command.words or command.assigned_variables:
            command.optional = bool(self.in_condition or self.optional_depth or self.after_or or not failure_matters)
            self.script.commands.append(command)
            self.last_was_test = command.name in ("[", "test") or (self.after_or and command.optional)
            self.after_or = False

    # -- words

    def _add_word(self, word: Word) -> None:
        command = self.current
        if not command.words and word.literal:
            if _is_assignment(word.text):
                command.assigned_variables.append(word.text.partition("=")[0].rstrip("+"))
                return
            if self._handle_reserved_word(word.text):
                return
        elif not command.words and _is_assignment(word.text):
            command.assigned_variables.append(word.text.partition("=")[0].rstrip("+"))
            return
        command.words.append(word)

    def _handle_reserved_word(self, name: str) -> bool:
        """Handle a reserved word of the shell; return whether it is one."""
        if name in ("for", "select"):
            self._skip_until(("do",))
        elif name == "case":
            self._skip_until(("in",))
            self.opened.append("case")
            self.optional_depth += 1
            self.at_case_pattern = True
        elif name == "function":
            self._skip_blank()
            self.script.functions.add(self._parse_word().text)
        elif name == "[[":
            end = self.text.find("]]", self.at)
            self.at = len(self.text) if end < 0 else end + 2
            self.last_was_test = True
        elif name in _SKIPPED_KEYWORDS:
            self._handle_keyword(name)
        else:
            return False
        return True

    def _handle_keyword(self, name: str) -> None:
        if name in _CONDITION_KEYWORDS:
            self.in_condition += 1
            if name == "if":
                self.opened.append(name)
        elif name in _BODY_KEYWORDS:
            self.in_condition = max(0, self.in_condition - (name != "else"))
            if name == "then":
                self.optional_depth += 1
        elif name == "fi" and "if" in self.opened:
            self._close_block("if")
        elif name == "esac" and "case" in self.opened:
            self.at_case_pattern = False
            self._close_block("case")

    def _close_block(self, kind: str) -> None:
        while self.opened and self.opened.pop() != kind:
            pass
        self.optional_depth = len(self.opened)

    def _parse_word(self) -> Word:
        text, start, literal, parts = self.text, self.at, True, []
        while self.at < len(text):
            char = text[self.at]
            if text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\\":
                parts.append(text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char == "'":
                parts.append(self._parse_quoted("'"))
            elif char == '"':
                inner, plain = self._parse_double_quoted()
                parts.append(inner)
                literal = literal and plain
            elif char in "$`":
                literal = False
                parts.append(self._parse_substitution())
            elif char in _META_CHARS:
                break
            else:
                literal = literal and char not in "*?["
                parts.append(char)
                self.at += 1
        if self.at == start:  # an unknown character
            self.at += 1
            return Word("", False)
        word = "".join(parts)
        if word.startswith("~") or "{" in word[1:]:
            literal = False
        return Word(word, literal)

    def _parse_quoted(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        return inner

    def _parse_double_quoted(self) -> tuple[str, bool]:
        parts, plain = [], True
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                plain = False
                parts.append(self._parse_substitution())
            else:
                parts.append(char)
                self.at += 1
        self.at += 1
        return "".join(parts), plain

    def _parse_substitution(self) -> str:
        start = self.at
        if self.text[start] == "`":
            self._parse_quoted("`")
        elif self.text.startswith("$(", start):
            self._skip_balanced("(", ")")
        elif self.text.startswith("${", start):
            self._skip_balanced("{", "}")
        else:
            self.at += 1
        return self.text[start : self.at]

    def _skip_balanced(self, opening: str, closing: str) -> None:
        self.at += 1
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char == "'" and opening == "(":
                self._parse_quoted("'")
                continue
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
            self.at += 1
            if depth == 0:
                return

    # -- the rest

    def _parse_redirection(self) -> bool:
        text, at = self.text, self.at
        while at < len(text) and text[at].isdigit():
            at += 1
        if text.startswith("&>", at):
            sign = "&>"
        elif at < len(text) and text[at] in "<>":
            sign = next(each for each in _REDIRECTIONS if text.startswith(each, at))
        else:
            return False
        if text.startswith(("<(", ">("), at):
            self.at = at
            self._skip_balanced("(", ")")
            self.current.words.append(Word("", False))
            return True
        self.at = at + len(sign)
        self._skip_blank()
        target = self._parse_word()
        if sign in ("<<", "<<-"):
            self.heredocs.append((target.text, sign == "<<-"))
        elif ">" in sign and sign != ">&":
            self.current.write_targets.append(target)
        elif sign == "<":
            self.current.read_sources.append(target)
        return True

    def _skip_heredocs(self) -> None:
        for mark, dashed in self.heredocs:
            while self.at < len(self.text):
                end = self._find_line_end()
                line = self.text[self.at : end]
                self.at = end + 1
                if (line.lstrip("\t") if dashed else line) == mark:
                    break
        self.heredocs.clear()

    def _find_line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _skip_blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _BLANK_CHARS:
            self.at += 1

    def _skip_until(self, words: tuple[str, ...]) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _META_CHARS:
                self.at += 1
            elif self._parse_word().text in words:
                return

    def _skip_pattern(self) -> None:
        end = self.text.find(")", self.at)
        self.at = len(self.text) if end < 0 else end + 1
        self.at_case_pattern = False

    def _is_at_word(self, word: str) -> bool:
        after = self.at + len(word)
        return self.text.startswith(word, self.at) and (after >= len(self.text) or self.text[after] in _META_CHARS)


def _is_assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    name = name.removesuffix("+")
    return bool(equals) and name.isidentifier() and name.isascii()
