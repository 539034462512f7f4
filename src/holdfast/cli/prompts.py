"""Asking for passwords and secrets: on the terminal without showing them, or from stdin or a file for scripts; never as
an argument. And asking whether somebody is sure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from holdfast.core.errors import UserError


def read_password(prompt: str, *, from_stdin: bool, confirm: bool = False) -> str:
    if from_stdin:
        return first_line_of_stdin("password")
    if not sys.stdin.isatty():
        raise UserError(
            "There is no terminal to ask for a password on", hint="Give it on stdin and add --password-stdin."
        )
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True))


def read_secret(prompt: str, *, from_stdin: bool, file: Path | None) -> str:
    """All of stdin or of the file, without the newline at its end: an SSH key has many lines."""
    if file is not None:
        return _text(file.name, lambda: file.read_bytes())
    if from_stdin:
        return _text("stdin", sys.stdin.buffer.read)
    if not sys.stdin.isatty():
        raise UserError("There is no terminal to ask for the value on", hint="Use --file FILE, or --stdin.")
    return str(typer.prompt(prompt, hide_input=True, err=True))


def _text(what: str, read: Callable[[], bytes]) -> str:
    try:
        return read().decode().rstrip("\r\n")
    except OSError as error:
        raise UserError(f"Cannot read {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{what} is not UTF-8 text") from None


def first_line_of_stdin(what: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UserError(f"The {what} on stdin is empty", hint=f"Put the {what} on the first line.")
    return line


def sure(question: str, yes: bool) -> None:
    """Go on only if the person says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{question} There is no terminal to ask on", hint="Add --yes to go ahead.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
