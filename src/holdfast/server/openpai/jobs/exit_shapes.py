"""Exits in the shapes of OpenPAI's responses."""

from __future__ import annotations

from typing import Any

from holdfast.core.attempt import Outcome, OutcomeResult
from holdfast.core.exits.exit import Exit
from holdfast.core.exits.table import find_spec

from .error_logs import NO_ERROR_LOGS, ErrorLogs

NO_EXIT_FIELDS: dict[str, Any] = {
    "appExitCode": None,
    "appExitSpec": None,
    "appExitDiagnostics": None,
    "appExitMessages": None,
    "appExitTriggerMessage": None,
    "appExitTriggerTaskRoleName": None,
    "appExitTriggerTaskIndex": None,
    "appExitType": None,
}


def get_exit_code(exit: Exit | None) -> int | None:
    return None if exit is None else find_spec(exit).code


def exit_spec_to_json(exit: Exit | None) -> dict[str, Any] | None:
    if exit is None:
        return None
    spec = find_spec(exit)
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


def app_exit_to_json(
    exit: Exit, outcome: Outcome | None, role: str | None, error_logs: ErrorLogs = NO_ERROR_LOGS
) -> dict[str, Any]:
    """Return the exit of a whole attempt. `role`: the role that decided it, as spelled in responses."""
    return {
        "appExitCode": get_exit_code(exit),
        "appExitSpec": exit_spec_to_json(exit),
        "appExitDiagnostics": outcome.message if outcome else exit.message,
        "appExitMessages": build_exit_messages(exit, error_logs),
        "appExitTriggerMessage": outcome and build_trigger_message(outcome),
        "appExitTriggerTaskRoleName": role,
        "appExitTriggerTaskIndex": outcome.index if outcome else None,
        "appExitType": get_exit_type(exit),
    }


def get_exit_type(exit: Exit) -> str:
    return "Succeeded" if get_exit_code(exit) == 0 else "Failed"


def build_exit_messages(exit: Exit, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any]:
    """Return messages: a failure of the program under `runtime`, everything else under `launcher`."""
    runtime = build_runtime_report(exit, error_logs)
    return {"container": None, "runtime": runtime, "launcher": None if runtime else exit.message}


def build_runtime_report(exit: Exit, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any] | None:
    """Return the program's own exit code, unless it was stopped: codes below 0 are for external causes."""
    if not exit.code or (get_exit_code(exit) or 0) <= 0:
        return None
    return {
        "name": "app",
        "exitCode": get_exit_code(exit),
        "originUserExitCode": exit.code,
        "errorLogs": {"user": error_logs.user, "platform": error_logs.platform},
    }


def build_trigger_message(outcome: Outcome) -> str | None:
    """Return the rule that ended the attempt; None if there is none, as with a time limit."""
    reached, needed = outcome.reached, outcome.needed
    if reached is None:
        return None
    if needed is None:
        return (
            f"CompletedTaskCount {reached} has reached TotalTaskCount {reached} and no user specified conditions in "
            "FrameworkAttemptCompletionPolicy have ever been triggered"
        )
    word = "Failed" if outcome.result is OutcomeResult.FAILED else "Succeeded"
    return f"{word}TaskCount {reached} has reached Min{word}TaskCount {needed} in the TaskRole"
