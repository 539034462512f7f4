"""Asking for passwords: on the terminal without showing them, or from stdin for scripts; never as an argument."""

from __future__ import annotations

import sys

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
