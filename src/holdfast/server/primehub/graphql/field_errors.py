"""Errors of single fields in a GraphQL response."""

from __future__ import annotations

import logging
from typing import Any

from graphql import GraphQLError

from holdfast.core.errors import UserError
from holdfast.store.errors import StoreError

from ..errors import (
    INVALID_QUERY_CODE,
    MAX_MESSAGE_LENGTH,
    PrimeHubError,
    build_internal_error,
    build_store_error,
    translate_error,
)

log = logging.getLogger(__name__)


def field_error_to_json(error: GraphQLError, request_id: str) -> dict[str, Any]:
    """Return one error of the list. Unexpected errors are logged and shown by request ID only."""
    found = _translate_cause(error, request_id)
    shown: dict[str, Any] = {"message": found.message[:MAX_MESSAGE_LENGTH]}
    if error.locations:
        shown["locations"] = [{"line": place.line, "column": place.column} for place in error.locations[:10]]
    if error.path:
        shown["path"] = error.path
    return {**shown, "extensions": {"code": found.code}}


def _translate_cause(error: GraphQLError, request_id: str) -> PrimeHubError:
    cause = error.original_error
    while isinstance(cause, GraphQLError):  # nested exceptions
        cause = cause.original_error
    if cause is None:
        return PrimeHubError(error.message, INVALID_QUERY_CODE)
    if isinstance(cause, PrimeHubError):
        return cause
    if isinstance(cause, UserError):
        return translate_error(cause)
    if isinstance(cause, StoreError):
        log.error("database error", extra={"event": "store", "error": str(cause)})
        return build_store_error(cause)
    log.error(
        "field failed", exc_info=cause, extra={"event": "internal-error", "request_id": request_id, "at": error.path}
    )
    return build_internal_error(request_id)
