"""Calls about the place itself: health, version, status, capacity, images."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.api.catalogue import Image
from holdfast.api.server import Capacity, Health, Status, Version

from .exchange import Call, Upload, as_a, as_items, as_nothing, call, endpoint, parse, segment

UPLOAD_TIMEOUT = 3600.0  # seconds; the server unpacks the image before it answers


class PlaceCalls:
    @endpoint
    def health(self) -> Call[Health]:
        """Whether the server is well; needs no login."""
        return call("GET", "/health", as_a(Health))

    @endpoint
    def version(self) -> Call[Version]:
        """The server's version; needs no login."""
        return call("GET", "/version", as_a(Version))

    @endpoint
    def status(self) -> Call[Status]:
        return call("GET", "/status", as_a(Status))

    @endpoint
    def capacity(self) -> Call[Capacity]:
        """Machines, what is free on them, and what each group uses of its quota."""
        return call("GET", "/capacity", as_a(Capacity))

    @endpoint
    def openapi(self) -> Call[dict[str, Any]]:
        """The description of the whole API."""
        return call("GET", "/openapi.json", parse)

    @endpoint
    def images(self) -> Call[tuple[Image, ...]]:
        return call("GET", "/images", as_items(Image))

    @endpoint
    def import_image(
        self, name: str, file: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None
    ) -> Call[Image]:
        """Send an image archive (docker save, OCI layout or root filesystem tar); `progress` is told of each piece."""
        path = Path(file)
        upload = Upload(path=path, size=path.stat().st_size, progress=progress)
        return call("POST", "/images", as_a(Image), params={"name": name}, content=upload, timeout=UPLOAD_TIMEOUT)

    @endpoint
    def remove_image(self, name: str) -> Call[None]:
        return call("DELETE", f"/images/{segment(name, safe='/')}", as_nothing)
