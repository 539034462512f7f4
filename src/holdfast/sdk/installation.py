"""Calls about the place itself: health, version, status, capacity, images."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import api

from .exchange import Call, Upload, as_a, as_items, as_nothing, call, endpoint, parse, segment

UPLOAD_TIMEOUT = 3600.0  # seconds; the server unpacks the image before it answers


class PlaceCalls:
    @endpoint
    def health(self) -> Call[api.server.Health]:
        """Whether the server is well; needs no login."""
        return call("GET", "/health", as_a(api.server.Health))

    @endpoint
    def version(self) -> Call[api.server.Version]:
        """The server's version; needs no login."""
        return call("GET", "/version", as_a(api.server.Version))

    @endpoint
    def status(self) -> Call[api.server.Status]:
        return call("GET", "/status", as_a(api.server.Status))

    @endpoint
    def capacity(self) -> Call[api.server.Capacity]:
        """Machines, what is free on them, and what each group uses of its quota."""
        return call("GET", "/capacity", as_a(api.server.Capacity))

    @endpoint
    def openapi(self) -> Call[dict[str, Any]]:
        """The description of the whole API."""
        return call("GET", "/openapi.json", parse)

    @endpoint
    def images(self) -> Call[tuple[api.catalogue.Image, ...]]:
        return call("GET", "/images", as_items(api.catalogue.Image))

    @endpoint
    def import_image(
        self, name: str, file: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None
    ) -> Call[api.catalogue.Image]:
        """Send an image archive (docker save, OCI layout or root filesystem tar); `progress` is told of each piece."""
        path = Path(file)
        upload = Upload(path=path, size=path.stat().st_size, progress=progress)
        return call(
            "POST", "/images", as_a(api.catalogue.Image), params={"name": name}, content=upload, timeout=UPLOAD_TIMEOUT
        )

    @endpoint
    def remove_image(self, name: str) -> Call[None]:
        return call("DELETE", f"/images/{segment(name, safe='/')}", as_nothing)
