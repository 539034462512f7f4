"""How something ended, in the shapes of OpenPAI's answers."""

from __future__ import annotations

from typing import Any

from holdfast.core.attempt import Outcome, Result
from holdfast.core.exits.exit import Exit
from holdfast.core.exits.table import spec_of

from .error_logs import NOTHING, ErrorLogs

NO_EXIT: dict[str, Any] = {
    "appExitCode": None,
    "appExitSpec": None,
    "appExitDiagnostics": None,
    "appExitMessages": None,
    "appExitTriggerMessage": None,
    "appExitTriggerTaskRoleName": None,
    "appExitTriggerTaskIndex": None,
    "appExitType": None,
}


def exit_code(exit: Exit | None) -> int | None:
    return None if exit is None else spec_of(exit).code


def exit_spec(exit: Exit | None) -> dict[str, Any] | None:
    if exit is None:
        return None
    spec = spec_of(exit)
    return {
        "code": spec.code,
        "phrase": spec.phrase,
        "issuer": spec.issuer,
        "causer": spec.causer,
        "type": spec.type,
        "stage": spec.stage,
        "behavior": spec.behaviour.name,
        "reaction": spec.reaction,
        "reason": spec.reason,
        "repro": list(spec.repro),
        "solution": list(spec.solution),
    }


def app_exit(exit: Exit, outcome: Outcome | None, role: str | None, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    """How a whole attempt ended. `role`: the role that decided it, as answers spell it."""
    return {
        "appExitCode": exit_code(exit),
        "appExitSpec": exit_spec(exit),
        "appExitDiagnostics": outcome.message if outcome else exit.message,
        "appExitMessages": exit_messages(exit, error_logs),
        "appExitTriggerMessage": outcome and trigger_message(outcome),
        "appExitTriggerTaskRoleName": role,
        "appExitTriggerTaskIndex": outcome.index if outcome else None,
        "appExitType": exit_type(exit),
    }


def exit_type(exit: Exit) -> str:
    return "Succeeded" if exit_code(exit) == 0 else "Failed"


def exit_messages(exit: Exit, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    """A program's own failure is told under `runtime`, everything else under `launcher`."""
    runtime = runtime_report(exit, error_logs)
    return {"container": None, "runtime": runtime, "launcher": None if runtime else exit.message}


def runtime_report(exit: Exit, error_logs: ErrorLogs = NOTHING) -> dict[str, Any] | None:
    """The program's own exit code, unless it was stopped: codes below 0 are for what others did to it."""
    if not exit.code or (exit_code(exit) or 0) <= 0:
        return None
    return {
        "name": "app",
        "exitCode": exit_code(exit),
        "originUserExitCode": exit.code,
        "errorLogs": {"user": error_logs.user, "platform": error_logs.platform},
    }


def trigger_message(outcome: Outcome) -> str | None:
    """Which rule ended the attempt; None when none did, as with a time limit."""
    reached, needed = outcome.reached, outcome.needed
    if reached is None:
        return None
    if needed is None:
        return (
            f"CompletedTaskCount {reached} has reached TotalTaskCount {reached} and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered"
        )
    word = "Failed" if outcome.result is Result.FAILED else "Succeeded"
    return f"{word}TaskCount {reached} has reached Min{word}TaskCount {needed} in the TaskRole"
