"""The description of OpenPAI's API that its SDK ships: what an answer of each operation must look like."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
import yaml

from .node import PACKAGE, sdk_folder

_METHODS = ("get", "put", "post", "delete")
_OIDC = "/api/v2/authn/oidc/"  # redirects to a place outside; not offered
_FRAMEWORK = "/api/v2/jobs/{user}~{job}"
_TASK = f"{_FRAMEWORK}/attempts/{{jobAttemptId}}/taskRoles/{{taskRoleName}}/taskIndex/{{taskIndex}}/attempts"

# Operation -> the script that asks for it, and the key in what it tells.
TOLD = {
    "GET /api/v2/info": ("login", "info"),
    "POST /api/v2/authn/basic/login": ("login", "login"),
    "DELETE /api/v2/authn/basic/logout": ("login", "logout"),
    "GET /api/v2/tokens": ("tokens", "listed"),
    "DELETE /api/v2/tokens/{token}": ("tokens", "deleted"),
    "POST /api/v2/tokens/application": ("tokens", "made"),
    "POST /api/v2/users": ("users", "created"),
    "GET /api/v2/users": ("users", "everyone"),
    "PUT /api/v2/users": ("users", "updated"),
    "PUT /api/v2/users/me": ("users", "herself"),
    "GET /api/v2/users/{user}": ("users", "fresh"),
    "DELETE /api/v2/users/{user}": ("users", "deleted"),
    "PUT /api/v2/users/{user}/group/": ("users", "added"),
    "DELETE /api/v2/users/{user}/group/": ("users", "removed"),
    "PUT /api/v2/users/{user}/grouplist/": ("users", "replaced"),
    "GET /api/v2/groups": ("groups", "all"),
    "POST /api/v2/groups": ("groups", "created"),
    "PUT /api/v2/groups": ("groups", "updated"),
    "GET /api/v2/groups/{group}": ("groups", "fresh"),
    "DELETE /api/v2/groups/{group}": ("groups", "deleted"),
    "GET /api/v2/groups/{group}/userlist": ("groups", "members"),
    "GET /api/v2/virtual-clusters": ("places", "clusters"),
    "GET /api/v2/virtual-clusters/{vc}": ("places", "cluster"),
    "GET /api/v2/storages": ("places", "storages"),
    "GET /api/v2/storages/{storage}": ("places", "storage"),
    "GET /api/v2/kubernetes/nodes": ("places", "nodes"),
    "GET /api/v2/kubernetes/pods": ("places", "pods"),
    "POST /api/v2/jobs": ("jobs", "submitted"),
    "GET /api/v2/jobs": ("listing", "all"),
    f"GET {_FRAMEWORK}": ("jobs", "job"),
    f"GET {_FRAMEWORK}/attempts/{{jobAttemptId}}": ("history", "first"),
    f"GET {_FRAMEWORK}/config": ("jobs", "config"),
    f"PUT {_FRAMEWORK}/executionType": ("stopping", "stopped"),
    f"PUT {_FRAMEWORK}/tag": ("tags", "added"),
    f"DELETE {_FRAMEWORK}/tag": ("tags", "deleted"),
    f"GET {_FRAMEWORK}/events": ("jobs", "events"),
    f"GET {_FRAMEWORK}/job-attempts/healthz": ("history", "health"),
    f"GET {_FRAMEWORK}/job-attempts": ("history", "attempts"),
    f"GET {_FRAMEWORK}/job-attempts/{{attemptIndex}}": ("history", "second"),
    f"GET {_TASK}": ("jobs", "task"),
    f"GET {_TASK}/{{taskAttemptId}}/logs": ("jobs", "logs"),
}


def described() -> set[str]:
    """Every operation of the description but those of OpenID Connect."""
    paths = _description()["paths"]
    return {
        f"{method.upper()} {path}"
        for path, operations in paths.items()
        for method in operations
        if method in _METHODS and not path.startswith(_OIDC)
    }


def mistakes(operation: str, answer: Any) -> list[str]:
    """Where `answer` is not what the description promises."""
    schema = {**_answer_schema(operation), "components": _description()["components"]}
    found = jsonschema.Draft202012Validator(schema).iter_errors(answer)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def _answer_schema(operation: str) -> dict[str, Any]:
    method, path = operation.split(" ")
    replies = _description()["paths"][path][method.lower()]["responses"]
    good = next(reply for status, reply in replies.items() if str(status).startswith("2"))
    content = next(iter(good.get("content", {}).values()), {})
    return dict(content.get("schema", {}))


@cache
def _description() -> Any:
    path = sdk_folder() / PACKAGE / "lib" / "src" / "api" / "v2" / "swagger.yaml"
    description = _with_nulls(yaml.safe_load(path.read_text()))
    _mend(description["components"]["schemas"])
    return description


def _mend(schemas: dict[str, Any]) -> None:
    """Where OpenPAI's own server and portal do otherwise, and where the description points to the web."""
    detail = schemas["JobDetail"]["properties"]
    detail["jobStatus"]["properties"]["appExitMessages"]["properties"]["runtime"] = {"type": ["object", "null"]}
    tasks = detail["taskRoles"]["additionalProperties"]["properties"]["taskStatuses"]
    tasks["items"]["properties"]["taskUid"] = {"type": "string"}
    event = schemas["JobEvents"]["items"]["properties"]
    for name in ("podUid", "taskroleName", "taskName", "taskIndex"):  # an event of the job itself has none
        event[name]["type"] = [event[name]["type"], "null"]
    schemas["JobProtocol"] = {"type": "object"}


def _with_nulls(node: Any) -> Any:
    """OpenAPI's `nullable: true` in JSON schema's words."""
    if isinstance(node, list):
        return [_with_nulls(each) for each in node]
    if not isinstance(node, dict):
        return node
    known = {key: _with_nulls(value) for key, value in node.items()}
    if known.get("nullable") is True and isinstance(known.get("type"), str):
        known["type"] = [known["type"], "null"]
        if "enum" in known:
            known["enum"] = [*known["enum"], None]
    return known
