"""Calls about the server: health, version, status, capacity, images."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from holdfast import api

from .calls import (
    Call,
    Upload,
    build_call,
    drop_none,
    endpoint,
    ignore_body,
    make_list_parser,
    parse_json,
    quote_segment,
)

UPLOAD_TIMEOUT = 3600.0  # seconds; the server unpacks the image before it responds


class ServerCalls:
    @endpoint
    def get_health(self) -> Call[api.server.Health]:
        """Return the health of the server; needs no login."""
        return build_call("GET", "/health", api.server.Health)

    @endpoint
    def get_version(self) -> Call[api.server.Version]:
        return build_call("GET", "/version", api.server.Version)

    @endpoint
    def get_status(self) -> Call[api.server.Status]:
        return build_call("GET", "/status", api.server.Status)

    @endpoint
    def get_capacity(self) -> Call[api.server.Capacity]:
        """Return nodes with their free resources, and quota usage of each group."""
        return build_call("GET", "/capacity", api.server.Capacity)

    @endpoint
    def get_openapi(self) -> Call[dict[str, Any]]:
        return build_call("GET", "/openapi.json", parse_json)

    @endpoint
    def list_images(self) -> Call[tuple[api.catalogue.Image, ...]]:
        return build_call("GET", "/images", make_list_parser(api.catalogue.Image))

    @endpoint
    def import_image(
        self, name: str, file: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None
    ) -> Call[api.catalogue.Image]:
        """Upload an image archive (docker save, OCI layout or root filesystem tar); `progress` gets each chunk size."""
        params, upload = {"name": name}, Upload.from_file(file, progress)
        read = api.catalogue.Image
        return build_call("POST", "/images", read, params=params, content=upload, timeout=UPLOAD_TIMEOUT)

    @endpoint
    def pull_image(
        self, name: str, *, secret: str | None = None, engine: str | None = None
    ) -> Call[api.catalogue.ImagePull]:
        """Start to pull an image, or join a pull; repeat it until `image` is set. `secret`: for its registry.
        `engine`: that needs it. Default: the server's default engine."""
        params = drop_none(name=name, secret=secret, engine=engine)
        return build_call("POST", "/images/pull", api.catalogue.ImagePull, params=params, repeatable=True)

    @endpoint
    def remove_image(self, name: str) -> Call[None]:
        return build_call("DELETE", f"/images/{quote_segment(name, safe='/')}", ignore_body)
