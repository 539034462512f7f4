"""Users from CSV, as written by spreadsheets and OpenPAI's batch registration."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.names import MAX_EMAIL_LENGTH, check_text, check_user_name
from holdfast.services.people.passwords import check_password

MAX_USER_LINES = 500  # hashing each password takes time
_FIELDS_BY_COLUMN = {
    "name": "name",
    "user": "name",
    "username": "name",
    "email": "email",
    "password": "password",
    "admin": "admin",
    "groups": "groups",
    "group": "groups",
    "vc": "groups",
    "virtual cluster": "groups",
    "virtualcluster": "groups",
}
_TRUE_WORDS = frozenset({"true", "yes", "y", "1", "admin", "on"})
_FALSE_WORDS = frozenset({"", "false", "no", "n", "0", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    number: int
    name: str
    email: str = ""
    password: str = ""  # empty: generated
    admin: bool = False
    groups: tuple[str, ...] | None = None  # None: the default one
    problem: str = ""
    hint: str = ""


def parse_user_lines(text: str, users: Collection[str], groups: Collection[str]) -> list[UserLine]:
    """Parse the lines, each with its problem. UserError if the text is not a table of users."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(msg("Invalid CSV: {error}", error=error), field="text") from None
    if not rows:
        raise UserError(msg("The input is empty"), field="text", hint=msg("Paste CSV lines or choose a file."))
    columns = _parse_columns(rows[0])
    if len(rows) - 1 > MAX_USER_LINES:
        raise UserError(
            msg("At most {max_lines} users can be imported at once", max_lines=MAX_USER_LINES),
            field="text",
            hint=msg("Import the users in several batches."),
        )
    return list(_iter_user_lines(rows[1:], columns, {name.lower() for name in users}, set(groups)))


def _parse_columns(first: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, title in enumerate(first):
        name = _FIELDS_BY_COLUMN.get(title.strip().lower().lstrip("\ufeff"))
        if name is None:
            hint = "name, email, password, admin, groups."
            raise UserError(
                msg("Unknown column {title}", title=repr(title.strip()[:40])),
                field="text",
                hint=msg("Use these column names in the first line: {hint}", hint=hint),
            )
        found[name] = number
    if "name" not in found:
        raise UserError(
            msg("The name column is missing"), field="text", hint=msg("Use this as the first line: name,email,groups")
        )
    return found


def _iter_user_lines(
    rows: list[list[str]], columns: dict[str, int], users: set[str], groups: set[str]
) -> Iterator[UserLine]:
    taken = set(users)
    for number, row in enumerate(rows, 2):
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
        line = UserLine(
            number=number,
            name=cells["name"],
            email=cells.get("email", ""),
            password=cells.get("password", ""),
            admin=cells.get("admin", "").lower() in _TRUE_WORDS,
            groups=_parse_groups(cells.get("groups", "")),
        )
        yield _add_problem(line, cells.get("admin", "").lower(), taken, groups)
        taken.add(line.name.lower())


def _parse_groups(text: str) -> tuple[str, ...] | None:
    for sign in "|;,":
        text = text.replace(sign, " ")
    return tuple(dict.fromkeys(text.split())) or None


def _add_problem(line: UserLine, admin: str, taken: set[str], groups: set[str]) -> UserLine:
    try:
        _validate_user_line(line, admin, taken, groups)
    except UserError as error:
        return replace(line, problem=error.message, hint=error.hint or "")
    return line


def _validate_user_line(line: UserLine, admin: str, taken: set[str], groups: set[str]) -> None:
    check_user_name(line.name)
    if line.name.lower() in taken:
        raise UserError(msg("User {name} already exists", name=line.name))
    check_text(line.email, "email", longest=MAX_EMAIL_LENGTH)
    if line.password:
        check_password(line.password, user=line.name)
    if admin not in _TRUE_WORDS | _FALSE_WORDS:
        raise UserError(msg("{admin} is neither true nor false", admin=repr(admin[:20])))
    missing = [group for group in line.groups or () if group not in groups]
    if missing:
        raise UserError(msg("Group {name} not found", name=missing[0][:60]), hint=msg("Add the group first."))
