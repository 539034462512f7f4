"""Prompts for passwords, secrets and confirmations. Secrets come from a hidden prompt, stdin or a file, never from an
argument."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from holdfast.core.errors import UserError


def read_password(prompt: str, *, from_stdin: bool, confirm: bool = False) -> str:
    if from_stdin:
        return read_stdin_line("password")
    if not sys.stdin.isatty():
        raise UserError("Cannot ask for a password: stdin is not a terminal", hint="Pipe it in with --password-stdin.")
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True))


def read_secret(prompt: str, *, from_stdin: bool, file: Path | None) -> str:
    """Read a secret; of a file or stdin all lines, without the last newline."""
    if file is not None:
        return _read_text(file.name, lambda: file.read_bytes())
    if from_stdin:
        return _read_text("stdin", sys.stdin.buffer.read)
    if not sys.stdin.isatty():
        raise UserError("Cannot ask for the value: stdin is not a terminal", hint="Use --file FILE or --stdin.")
    return str(typer.prompt(prompt, hide_input=True, err=True))


def _read_text(what: str, read: Callable[[], bytes]) -> str:
    try:
        return read().decode().rstrip("\r\n")
    except OSError as error:
        raise UserError(f"Cannot read {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{what} is not UTF-8 text") from None


def read_stdin_line(what: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UserError(f"The {what} on stdin is empty", hint=f"Put the {what} on the first line.")
    return line


def confirm_or_exit(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        action = question[:1].lower() + question[1:].removesuffix("?")
        raise UserError(
            f"Cannot ask for confirmation to {action}: stdin is not a terminal", hint="Add --yes to confirm."
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
