"""Calls about the server: health, version, status, capacity, images."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from holdfast import api

from .calls import Call, Upload, call, endpoint, ignore_body, parse_as, parse_items, parse_json, quote_segment

UPLOAD_TIMEOUT = 3600.0  # seconds; the server unpacks the image before it responds


class ServerCalls:
    @endpoint
    def health(self) -> Call[api.server.Health]:
        """Return the health of the server; needs no login."""
        return call("GET", "/health", parse_as(api.server.Health))

    @endpoint
    def version(self) -> Call[api.server.Version]:
        return call("GET", "/version", parse_as(api.server.Version))

    @endpoint
    def status(self) -> Call[api.server.Status]:
        return call("GET", "/status", parse_as(api.server.Status))

    @endpoint
    def capacity(self) -> Call[api.server.Capacity]:
        """Return nodes with their free resources, and quota usage of each group."""
        return call("GET", "/capacity", parse_as(api.server.Capacity))

    @endpoint
    def openapi(self) -> Call[dict[str, Any]]:
        return call("GET", "/openapi.json", parse_json)

    @endpoint
    def images(self) -> Call[tuple[api.catalogue.Image, ...]]:
        return call("GET", "/images", parse_items(api.catalogue.Image))

    @endpoint
    def import_image(
        self, name: str, file: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None
    ) -> Call[api.catalogue.Image]:
        """Upload an image archive (docker save, OCI layout or root filesystem tar); `progress` gets each chunk size."""
        params, upload = {"name": name}, Upload.from_file(file, progress)
        read = parse_as(api.catalogue.Image)
        return call("POST", "/images", read, params=params, content=upload, timeout=UPLOAD_TIMEOUT)

    @endpoint
    def remove_image(self, name: str) -> Call[None]:
        return call("DELETE", f"/images/{quote_segment(name, safe='/')}", ignore_body)
