"""Templates in a job's commands that were not replaced before the shell ran them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.core.job import Role
from holdfast.core.verdicts import Fault

_TEMPLATE_PATTERN = re.compile(r"<%\s{0,5}\$[\w.\[\]-]{1,200}\s{0,5}%>")
_TEMPLATE_SECTIONS = frozenset({"parameters", "secrets", "data", "output", "script", "prerequisites"})


def find_unfilled_template(role: Role, fault: Fault, values: Mapping[str, str]) -> str:
    """Return the first unreplaced template of the role's commands if it can have caused the fault, else ""."""
    if not _is_caused_by_template(fault, values):
        return ""
    found = _TEMPLATE_PATTERN.search("\n".join(role.commands))
    return found[0] if found else ""


def _is_caused_by_template(fault: Fault, values: Mapping[str, str]) -> bool:
    if fault is Fault.UNSET_VARIABLE:
        return values.get("variable") in _TEMPLATE_SECTIONS
    if fault is Fault.MISSING_FILE:
        return values.get("file", "").startswith(("%", "<%")) or "<%" in values.get("said", "")
    return fault in (Fault.SHELL_SYNTAX, Fault.UNRESOLVED_TEMPLATE) or "<%" in values.get("said", "")
