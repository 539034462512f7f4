"""Job files of protocol v2, for tests."""

from __future__ import annotations

import json
from typing import Any


def role(*commands: str, **more: Any) -> dict[str, Any]:
    asked = {"cpu": 1, "memoryMB": 64, "gpu": 0, **more.pop("asked", {})}
    return {"dockerImage": "image", "resourcePerInstance": asked, "commands": list(commands or ("true",)), **more}


def job(name: str = "train", roles: dict[str, Any] | None = None, **more: Any) -> str:
    written = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "host"}],
        "taskRoles": roles or {"worker": role()},
        **more,
    }
    return json.dumps(written)
