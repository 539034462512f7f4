"""Where the REST API lies."""

from __future__ import annotations

from fastapi import APIRouter

PREFIX = "/api/v1"


def rest_router(*tags: str) -> APIRouter:
    """Routes that are whole as declared; included under a prefix, each would be made again for every application."""
    return APIRouter(prefix=PREFIX, tags=list(tags))
