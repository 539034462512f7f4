"""The type of objects in requests and responses."""

from typing import Any

JsonObject = dict[str, Any]
