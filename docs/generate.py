"""Write the reference pages that are generated from the code: settings, states, permissions, APIs, exit codes.

python docs/generate.py            write the pages
python docs/generate.py --check    only list outdated pages; exit status 1 if there are any
"""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graphql import GraphQLField, GraphQLObjectType
from pydantic.fields import FieldInfo

from holdfast.core.access import PERMISSION_RULES, Grantee
from holdfast.core.exits.exit import RetryBehaviour
from holdfast.core.exits.specs import EXIT_FAMILIES, LEGACY_FAMILY, ExitSpec, load_cause_specs, load_family_specs
from holdfast.core.states import FINAL_STATES, JOB_STATE_TRANSITIONS, JobState, StateChange, TaskState
from holdfast.server.openpai import handlers as handlers  # registers every endpoint
from holdfast.server.openpai.endpoints import ENDPOINTS, Endpoint
from holdfast.server.openpai.endpoints import AccessLevel as Requester
from holdfast.server.primehub.jobs.states import FAILURE_REASONS, PHASES
from holdfast.server.primehub.schema import build_schema
from holdfast.settings import Settings
from holdfast.settings_sections import SettingsSection

FOLDER = Path(__file__).parent / "reference"
HEADER = "<!-- Written by docs/generate.py from {source}. Change that, then run `make docs`. -->"

JOB_STATES = {
    JobState.PENDING: "Waits for free resources, for quota, or for its next attempt.",
    JobState.PREPARING: "Its resources are reserved, and its tasks are starting.",
    JobState.RUNNING: "At least one task of the current attempt has started.",
    JobState.HELD: "A task failed and is on hold for debugging; other tasks can still run. Not final.",
    JobState.SUCCEEDED: "Completed successfully. Final.",
    JobState.FAILED: "Failed, was rejected, or exceeded its time limit; the message shows the reason. Final.",
    JobState.CANCELLED: "Stopped by a user. Final.",
    JobState.UNKNOWN: "The engine does not know the state now. Not final. (Never used by the embedded engine.)",
}
TASK_STATES = {
    TaskState.WAITING: "Not placed yet, or waits for its next try.",
    TaskState.PREPARING: "Its resources are reserved, and it is starting.",
    TaskState.RUNNING: "Its process is running.",
    TaskState.HELD: "Failed, and is on hold for debugging.",
    TaskState.SUCCEEDED: "Its program exited with code 0.",
    TaskState.FAILED: "Its program or the platform failed; the exit shows which.",
    TaskState.STOPPED: "Stopped by Holdfast: the job was stopped, or the attempt has ended.",
}
CHANGES = {
    StateChange.PLACE: "enough resources are free",
    StateChange.START: "its first task is running",
    StateChange.HOLD: "a task failed and is on hold",
    StateChange.RESUME: "no task is on hold any more, and the attempt continues",
    StateChange.RETRY: "the attempt ended and is retried",
    StateChange.LOSE: "the engine cannot determine its state",
    StateChange.SUCCEED: "the attempt succeeded, without a retry",
    StateChange.FAIL: "the attempt failed and is not retried, or the job was rejected",
    StateChange.CANCEL: "a user stopped it and all its tasks have ended",
}


# --- settings


def render_settings() -> str:
    lines = [
        "# Settings",
        "",
        HEADER.format(source="src/holdfast/settings_sections.py and settings_engines.py"),
        "",
        "Every setting has a default, so a settings file is optional. Later sources override earlier ones:",
        "",
        "1. `holdfast.toml` in the state folder (`HOLDFAST_HOME`, else `~/.holdfast`)",
        "2. environment variables: `HOLDFAST_<SECTION>_<NAME>`, such as `HOLDFAST_SERVER_PORT=9090`;",
        "   list items are separated by commas",
        "3. options of the `holdfast up` command",
        "",
        "They are read when the server starts. An unknown name is an error.",
        "",
        "```toml",
        "# ~/.holdfast/holdfast.toml",
        "[server]",
        "port = 9090",
        "",
        "[jobs]",
        "time_limit = 172800  # two days",
        "```",
    ]
    for name, section in _list_sections():
        lines += ["", f"## {name}", "", "| setting | type | default | description |", "|---|---|---|---|"]
        lines += [_render_setting(field, info) for field, info in section.model_fields.items()]
    return _join_lines(lines)


def _list_sections() -> Iterable[tuple[str, type[SettingsSection]]]:
    for name, info in Settings.model_fields.items():
        section = info.annotation
        assert isinstance(section, type)
        assert issubclass(section, SettingsSection)
        yield name, section


def _render_setting(name: str, info: FieldInfo) -> str:
    cells = [f"`{name}`", _format_type(info.annotation), _format_default(info.default), info.description or ""]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _format_type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{word}"`' for word in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return _format_type(next(part for part in get_args(annotation) if part is not type(None)))
    if get_origin(annotation) is list:
        return f"list of {_format_type(get_args(annotation)[0])}s"
    if get_origin(annotation) is dict:
        return "table by name"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _format_default(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, dict):
        return ", ".join(f"`{name}`" for name in value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`{_format_binary_size(value)}" if isinstance(value, int) else f"`{value}`"


def _format_binary_size(value: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if value >= size and value % size == 0:
            return f" ({value // size} {unit})"
    return ""


# --- states


def render_states() -> str:
    lines = [
        "# States",
        "",
        HEADER.format(source="src/holdfast/core/states.py"),
        "",
        "A job has one of eight states. Every change is recorded as an event with its time, its reason and its user",
        "(`holdfast events JOB`).",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| {state} | {JOB_STATES[state]} |" for state in JobState),
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(f"    {line}" for line in _render_diagram()),
        "```",
        "",
        "## Changes",
        "",
        "This table is generated from the code. No other change is possible.",
        "",
        "| from | change | to | condition |",
        "|---|---|---|---|",
        *(f"| {a} | {change} | {b} | {CHANGES[change]} |" for (a, change), b in JOB_STATE_TRANSITIONS.items()),
        "",
        "## Tasks",
        "",
        "Each task of a job has its own state: that of its latest try.",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| {state} | {TASK_STATES[state]} |" for state in TaskState),
    ]
    return _join_lines(lines)


def _render_diagram() -> Iterable[str]:
    yield f"[*] --> {JobState.PENDING}"
    for (before, change), after in JOB_STATE_TRANSITIONS.items():
        yield f"{before} --> {after}: {change}"
    for state in JobState:
        if state in FINAL_STATES:
            yield f"{state} --> [*]"


# --- access


def render_access() -> str:
    lines = [
        "# Permissions",
        "",
        HEADER.format(source="src/holdfast/core/access.py"),
        "",
        "| action | required role |",
        "|---|---|",
        *(f"| {action} | {_describe_grantee(grantee)} |" for grantee, action in PERMISSION_RULES.values()),
        "",
        "All users can change their own password and manage their own tokens. A token has the permissions of its user.",
        "",
        "You cannot see jobs of groups that you do not belong to: requests return *not found*, not *forbidden*.",
        "",
        'With `access.reading = "users"`, all logged-in users can see all jobs, as in OpenPAI. With `"anyone"`, no'
        " login is required for this on the endpoints for OpenPAI clients. To act on a job, you must be in its group.",
        "",
        'With `access.acting = "owners"`, members can act only on their own jobs and schedules. Admins of the group,'
        " and admins, can act on all of them.",
    ]
    return _join_lines(lines)


def _describe_grantee(grantee: Grantee) -> str:
    return grantee.value if grantee is Grantee.ADMIN else f"{grantee.value}, or an admin"


# --- exit codes

RETRIED = {
    RetryBehaviour.TRANSIENT: "always, not counted",
    RetryBehaviour.TRANSIENT_CONFLICT: "always, after a few minutes, not counted",
    RetryBehaviour.PERMANENT: "never",
    RetryBehaviour.UNKNOWN: "up to the job's retry limit",
}


def render_exit_codes() -> str:
    current = [spec for family in EXIT_FAMILIES for spec in load_family_specs(family)]
    lines = [
        "# Exit codes for OpenPAI clients",
        "",
        HEADER.format(source="src/holdfast/core/exits/data"),
        "",
        "The exit of a task has the program's exit code, a kind and a message. `holdfast show` and the REST API show",
        "these. OpenPAI's clients expect other codes, which describe the cause. They get the code from this table, and",
        "the program's exit code as a separate field.",
        "",
        "For OpenPAI jobs, the table also decides what is retried. When a task of such a job fails by itself, the last",
        "64 KiB of its log are searched for known patterns, in the order of the codes 220 to 235. The first match is",
        "the cause. For all other jobs, only the exit decides about a retry.",
        "",
        *_render_exits(sorted(current, key=lambda spec: (spec.code > 0, abs(spec.code)))),
        "",
        "Other negative codes use the row of -8000, other positive codes that of 256. They keep their number.",
        "",
        "## Causes",
        "",
        "If Holdfast knows more than kind and code, the exit has one of these identifiers as its `cause`.",
        "",
        "| cause | code |",
        "|---|---|",
        *(f"| `{name}` | {cause.code} |" for name, cause in load_cause_specs().items()),
        "",
        "## Before OpenPAI 1.0",
        "",
        "For codes in old reports. Jobs in Holdfast do not use them.",
        "",
        *_render_exits(load_family_specs(LEGACY_FAMILY)),
    ]
    return _join_lines(lines)


def _render_exits(specs: Iterable[ExitSpec]) -> Iterable[str]:
    yield "| code | name | retried | reason | solution |"
    yield "|---|---|---|---|---|"
    for spec in specs:
        retried = "–" if spec.code == 0 else RETRIED[spec.behaviour]
        cells = [str(spec.code), spec.phrase, retried, spec.reason, " ".join(spec.solution)]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# --- OpenPAI's endpoints

OPENPAI_TOPICS: dict[str, tuple[str, ...]] = {
    "Logins and tokens": ("", "info", "authn", "token", "tokens"),
    "Jobs": ("jobs",),
    "Jobs, API version 1": ("v1/jobs",),
    "Users": ("user", "users"),
    "Groups": ("group", "groups"),
    "Virtual clusters and SKU types": ("virtual-clusters", "cluster"),
    "Storages": ("storage", "storages"),
    "Nodes and other endpoints": ("kubernetes", "alerts", "internal"),
}
OPENPAI_INTRO = """\
OpenPAI's clients use the path `/rest-server` (`http://HOST:8080/rest-server/api/v2/jobs`), as behind OpenPAI's gateway.
`/healthz` returns `Pylon ready.`, by which clients detect the gateway. Log links are below `/log-manager`. See
[migrate from OpenPAI](../how-to/coming-from-openpai.md).

- Log in with `Authorization: Bearer <token>`, or `Basic` with a user name and a token as the password.
- Request bodies can be JSON (also with the content type `text/plain`) or forms with `nested[fields]`.
- Errors are `{"code": ..., "message": ...}` with OpenPAI's codes. Trailing slashes are ignored. Web pages of any
  origin can send requests with their own token (or without one, with `access.reading = "anyone"`). Large responses are
  compressed with gzip if the client accepts it.
- Too many requests return 429 with `X-RateLimit-*` headers: see `openpai` in the [settings](settings.md). Behind a
  proxy, every request has the proxy's address. Raise `requests_per_minute` there, or limit requests in the proxy.

*Supported* endpoints work as in OpenPAI. *Always empty*: Holdfast does not have this feature, and the response is an
empty result in the expected format. *Not supported*: rejected with `NotImplementedError` and a message.

Paths at the root, where OpenPAI has its gateway:

| path | support |
|---|---|
| `/healthz` | supported |
| `/log-manager/...` | supported, for log links |
| `/` and its pages, such as `/job-detail.html` | not supported |
| `/grafana/`, `/prometheus/`, `/alert-manager/`, `/kubernetes-dashboard/` | not supported |
| port 9186, without the gateway | not supported |

Required permission:"""
OPENPAI_DIFFERENCES = """\
- **Read access.** In OpenPAI, every user can read every job and user record. In Holdfast, members of a group can read
  its jobs, and users can see themselves and their own groups, unless `access.reading` is `users` or `anyone`. Admins
  can see everything. Jobs, users and storages that you cannot see are *not found*.
- **Groups and virtual clusters** are the same in Holdfast. Both `grouplist` and `virtualCluster` of a user list the
  groups; admins can use all. A group's `acls` contain the group itself and the datasets granted to it.
- **Tokens** are opaque strings, not JWTs, and only their hashes are stored. A list shows handles (`hf_` and the id).
  `DELETE` accepts the token or its handle. Tokens from `holdfast token create` are application tokens. On Holdfast's
  own endpoints, an application token has all permissions of its user.
- **Passwords** need 8 characters instead of 6, and common passwords are rejected. `newPassword` of `PUT /users/me` is
  accepted *and* set. A failed login reports whether the user or the password is wrong, as in OpenPAI. After several
  failed logins, the response is 429.
- **Names** of users and groups can have up to 63 letters, digits, dots, dashes and underscores. User names can also
  contain `@`.
- **Secrets** in a user's `extension` (`jobSSH.key`, `githubPAT`, `boundedClusters`) are visible only to that user. For
  other users, non-admins see only the public keys. An `extension` can have 64 KiB. Each of its `sshKeys` must be a
  public key on one line, its numbers must be finite, and a key set to null is removed.
- **A job file that is not YAML** is rejected with 400, a code and the line; OpenPAI returns 500. An invalid
  prerequisite is reported once, for its own type; OpenPAI reports it for every type.
- **Roles** can be spelled as in the job file; OpenPAI requires lower-case letters and digits.
- **Lists**, events and jobs with many tasks are returned to each user one at a time. If more than 20 requests are
  waiting, the next one gets 429.
- **Kubernetes** is not used. Nodes are listed in its format; the list of pods is empty."""


def render_openpai_api() -> str:
    lines = ["# OpenPAI API", "", HEADER.format(source="src/holdfast/server/openpai"), "", OPENPAI_INTRO, ""]
    lines += [f"- *{who.name.lower()}*: {who.value}" for who in Requester]
    remaining = list(ENDPOINTS)
    for topic, keys in OPENPAI_TOPICS.items():
        endpoints = [each for each in remaining if _find_topic_key(each.path) in keys]
        remaining = [each for each in remaining if each not in endpoints]
        lines += [
            "",
            f"## {topic}",
            "",
            "| method | path below `/rest-server/api` | support | permission | note |",
            "|---|---|---|---|---|",
        ]
        lines += _render_endpoints(endpoints)
    assert not remaining, f"endpoints without a topic: {[each.path for each in remaining]}"
    return _join_lines([*lines, "", "## Differences from OpenPAI", "", OPENPAI_DIFFERENCES])


def _find_topic_key(path: str) -> str:
    """Return the part of a path that selects its heading."""
    version, *rest = path.strip("/").split("/")
    if version == "v1" and "jobs" in rest:
        return "v1/jobs"
    return version if version == "internal" else (rest or [""])[0]


def _render_endpoints(endpoints: list[Endpoint]) -> list[str]:
    """Render a row for each handler and method, sorted by path. A row can have several paths."""
    same: dict[Any, list[str]] = {}
    for each in sorted(endpoints, key=lambda each: _make_sort_key(each.path)):
        key = (each.method, each.support.value, each.access_level.name.lower(), each.note, each.handler)
        same.setdefault(key, []).append(f"`{each.path.replace(':path}', '}')}`")
    return [
        f"| {method} | {'<br>'.join(paths)} | {support} | {who} | {_to_sentence(note)} |"
        for (method, support, who, note, _), paths in same.items()
    ]


def _make_sort_key(path: str) -> tuple[str, str]:
    """Sort API version 2 first."""
    return ("0" if path.startswith("/v2") else "1", path)


def _to_sentence(note: str) -> str:
    first = note.partition(" ")[0]
    text = note[:1].upper() + note[1:] if first.removesuffix(":").isalpha() and first.islower() else note
    return (text if text.endswith(".") or not text else f"{text}.").replace("|", "\\|")


# --- PrimeHub's API

PRIMEHUB_INTRO = """\
For PrimeHub's clients, such as `primehub-python-sdk`, set the endpoint `http://HOST:8080/api/graphql` and a token from
`holdfast token create` (or from `primehub config generate-token http://HOST:8080`). See
[migrate from PrimeHub](../how-to/coming-from-primehub.md).

- `POST /api/graphql` accepts a form with `query` and `variables` (JSON text), as the SDK sends it, or the same as
  JSON.
- Every request needs the header `Authorization: Bearer <token>`.
- Errors are a list `errors` of `message`, `path` and `extensions.code`. Other endpoints return `{"code", "message"}`.
- Ids are names: of groups, users, images, instance types and volumes. `everyone` is the group of all users: objects
  connected to it are global.
- Lists have pages of 10 rows (`page`, starting at 1); a page after the last one is empty. `first`/`after` and
  `last`/`before` use a cursor, which is the id of a row: at most 100 rows, and for jobs only in the order of
  `createTime`. `where` supports `search` (case-insensitive), `..._contains` (case-sensitive) and `..._in`. Only the
  first key of `orderBy` is used.
- A query can have 32768 characters, 300 fields (with fragments expanded), 20 levels and 20 top-level fields. Its
  variables can have 10000 values, the response 32 Mi characters of text and 100 errors. Queries with more than 50
  fields run one at a time for each user. Introspection is supported in a separate query."""
PRIMEHUB_ENDPOINTS = [
    ("POST", "/api/graphql", "all queries and mutations below"),
    ("GET", "/api/logs/namespaces/hub/phjobs/ID", "the log of a job as text; `follow=true`, `tailLines=N`"),
    ("GET", "/api/logs/jupyterhub", "rejected: notebooks are not supported"),
    ("GET, POST", "/api/files/groups/GROUP/PATH", "one shared file; `download=1` returns it as an attachment"),
    ("GET", "/api/report/monthly/YEAR/MONTH", "resources allocated to tasks in a month, as CSV; for admins"),
    ("GET", "/api/report/monthly/details/YEAR/MONTH", "the same, with a line for each try of each task"),
    ("GET, POST", "/oidc/auth-flow/...", "login pages of `primehub config generate-token`"),
    ("GET, POST", "/console/oidc/auth-flow/...", "the same"),
    ("GET", "/api/health", "200, without login"),
]
PAGING = ("page", "first", "last", "after", "before")
PRIMEHUB_CODES = [
    ("NOT_AUTH", "permission denied"),
    ("RESOURCE_NOT_FOUND", 'not found, or you cannot see it: `phjobs.primehub.io "ID" not found`'),
    ("RESOURCE_CONFLICT", "it already exists, or conflicts with another object"),
    ("GROUP_CONFLICT_NAME", "the group already exists, or its name is too similar to an existing one"),
    ("USER_CONFLICT_USERNAME", "the user already exists"),
    ("USER_NOT_EXIST", "the user does not exist, or you cannot see it"),
    ("EXCEED_QUOTA", "the quota is too small for one task of this size"),
    ("REQUEST_BODY_INVALID", "the request is not valid; the message shows why"),
    ("GRAPHQL_VALIDATION_FAILED", "the query or its variables do not match the schema"),
    ("ACCESS_TOKEN_EXPIRED", "`Invalid API Token`"),
    ("API_UNAVAILABLE", "too many requests, or the database is not available"),
    ("INTERNAL_SERVER_ERROR", "a bug in Holdfast; the server's log has the details under the id in the message"),
]
PRIMEHUB_DIFFERENCES = """\
- **Admins** can see and do everything, in every group.
- **Unknown names.** A job with an unknown instance type is rejected when it is submitted. An image is checked when the
  job starts, as in PrimeHub: `Image not found: NAME`.
- **Rerun** keeps the time limit. **Cancel** has no effect on a job that has ended.
- **Logs** are kept, also of cancelled and timed-out jobs. `follow=true` waits for a job that has not started. Bytes
  that are not UTF-8 are sent as U+FFFD; `holdfast logs` prints them unchanged.
- **Artifacts** are kept for every job, however it ended. Files above a limit are named in the job's events; the others
  are kept.
- **Jobs of other clients** are listed too. `command` is that of the first role, and `instanceType` is `custom` if the
  job specifies its own resources.
- **`message`** of a pending or failed job has more text after PrimeHub's. For a failed job it is the exit, such as
  `Exit code 3`; PrimeHub had the last lines of its log. For a recurring job it names the invalid field of a cron
  expression.
- **A job without enough free resources** stays Pending, with the reason `PodPending`; it does not return to Preparing.
  Its resources are reserved, also against later jobs of other groups ([queue](../explanation/queue.md)). A job that is
  larger than every node fails at once.
- **Recurring jobs** of the type `inactive` are also `invalid` if they refer to deleted objects. You cannot change the
  job of another user's schedule if it has access to folders that you cannot see
  ([ownership](../how-to/recurring-jobs.md#ownership)).
- **`monitoring`** is that of the job's first task; null before the first sample.
- **`Unknown`** is not used; the number of requeues is not limited, and no mail is sent.
- **Secrets** are never returned: `password` is null. Two secrets cannot have the same name, even with different types.
  Admins of the group can see the values of MLflow variables; other members see `******`.
- **Groups** with unfinished jobs cannot be deleted. Job records keep the name of a deleted group.
- **Users** can have the same email. New users without `groups` join the group `default`. They get no mail, and a
  `temporary` password is rejected.
- **A job without `groupId`** is submitted to the group `default`, or else to your only group; PrimeHub rejected it.
- **Apps, deployments, models and notebooks** are not supported: lists are empty, and changes are rejected."""


def render_primehub_api() -> str:
    schema = build_schema()
    assert schema.query_type is not None
    assert schema.mutation_type is not None
    lines = ["# PrimeHub API", "", HEADER.format(source="src/holdfast/server/primehub"), "", PRIMEHUB_INTRO, ""]
    lines += ["## Endpoints", "", "| method | path | description |", "|---|---|---|"]
    lines += [f"| {method} | `{path}` | {_to_sentence(text)} |" for method, path, text in PRIMEHUB_ENDPOINTS]
    for title, root in (("Queries", schema.query_type), ("Mutations", schema.mutation_type)):
        lines += [
            "",
            f"## {title}",
            "",
            "| field | arguments | type | note |",
            "|---|---|---|---|",
            *_render_fields(root),
        ]
    lines += ["", "## Phases and reasons", "", *_render_phases()]
    lines += ["", "## Error codes", "", "| code | cause |", "|---|---|"]
    lines += [f"| `{code}` | {_to_sentence(when)} |" for code, when in PRIMEHUB_CODES]
    return _join_lines([*lines, "", "## Differences from PrimeHub", "", PRIMEHUB_DIFFERENCES])


def _render_fields(root: GraphQLObjectType) -> list[str]:
    return [
        f"| `{name}` | {_format_arguments(field)} | `{field.type}` | {field.description or ''} |"
        for name, field in root.fields.items()
    ]


def _format_arguments(field: GraphQLField) -> str:
    """Format the arguments; those for paging are combined."""
    others = [
        f"`{name}{'!' * str(each.type).endswith('!')}`" for name, each in field.args.items() if name not in PAGING
    ]
    return ", ".join([*others, "paging"] if set(PAGING) <= set(field.args) else others)


def _render_phases() -> list[str]:
    states = ["| Holdfast state | `phase` |", "|---|---|"]
    states += [f"| {state} | `{phase}` |" for state, phase in PHASES.items()]
    exits = ["| exit kind of a failed job | `reason` | `message` starts with |", "|---|---|---|"]
    exits += [
        f"| {kind} | `{reason}` | {before and f'`{before.strip()}`'} |"
        for kind, (reason, before) in FAILURE_REASONS.items()
    ]
    stop = (
        "When you stop a job, it is `Cancelled` at once, with the reason `Cancelled`. Its message is\n"
        "`Cancelled by user`, or shows that the next run of its schedule replaced it."
    )
    return [*states, "", stop, "", *exits]


# --- output


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": render_settings,
    "states.md": render_states,
    "access.md": render_access,
    "openpai-api.md": render_openpai_api,
    "primehub-api.md": render_primehub_api,
    "exit-codes.md": render_exit_codes,
}


def outdated() -> list[str]:
    """Return the names of pages that are missing or differ from the generated text."""
    return [name for name, render in PAGES.items() if _read_page(FOLDER / name) != render()]


def _read_page(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write() -> None:
    for name in outdated():
        (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        sys.stdout.write(f"wrote {FOLDER / name}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the reference pages that are generated from the code.")
    parser.add_argument("--check", action="store_true", help="only list outdated pages")
    if not parser.parse_args().check:
        write()
        return 0
    stale = outdated()
    for name in stale:
        sys.stdout.write(f"out of date: docs/reference/{name} (run: make docs)\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
