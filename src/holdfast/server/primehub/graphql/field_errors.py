"""Errors of single fields in a GraphQL answer."""

from __future__ import annotations

import logging
from typing import Any

from graphql import GraphQLError

from holdfast.core.errors import UserError
from holdfast.store.errors import StoreError

from ..errors import BAD_QUERY, MAX_LENGTH, PhError, internal, store_failed, translate

log = logging.getLogger(__name__)


def describe(error: GraphQLError, request_id: str) -> dict[str, Any]:
    """One of the list. What we did not foresee is logged, and told by its number alone."""
    found = _foreseen(error, request_id)
    shown: dict[str, Any] = {"message": found.message[:MAX_LENGTH]}
    if error.locations:
        shown["locations"] = [{"line": place.line, "column": place.column} for place in error.locations[:10]]
    if error.path:
        shown["path"] = error.path
    return {**shown, "extensions": {"code": found.code}}


def _foreseen(error: GraphQLError, request_id: str) -> PhError:
    cause = error.original_error
    while isinstance(cause, GraphQLError):  # one within another
        cause = cause.original_error
    if cause is None:
        return PhError(error.message, BAD_QUERY)
    if isinstance(cause, PhError):
        return cause
    if isinstance(cause, UserError):
        return translate(cause)
    if isinstance(cause, StoreError):
        log.error("the store could not do it", extra={"event": "store", "error": str(cause)})
        return store_failed(cause)
    log.error(
        "a field failed", exc_info=cause, extra={"event": "internal-error", "request_id": request_id, "at": error.path}
    )
    return internal(request_id)
