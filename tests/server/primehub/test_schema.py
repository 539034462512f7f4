"""The schema is whole: all that the SDK asks for is in it, and all that is in it is answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from graphql import GraphQLSchema

from holdfast.server.primehub.app import build_primehub_routes
from holdfast.server.primehub.graphql.query_cache import QueryRejected, parse_query
from holdfast.server.primehub.schema import build_schema

from .hub import Hub
from .sdk_documents import sdk_documents

DOCUMENTS = sdk_documents()
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "primehub-api.md"
UNTOLD = ("/api/share/", "/api/graphql/")  # where there is nothing


def test_all_operations_of_the_sdk_were_found() -> None:
    assert len(DOCUMENTS) == 114


@pytest.mark.parametrize("place", DOCUMENTS)
def test_every_operation_of_the_sdk_is_in_the_schema(place: str) -> None:
    try:
        parse_query(build_schema(), DOCUMENTS[place])
    except QueryRejected as refused:
        pytest.fail("\n".join(error.message for error in refused.errors))


def test_every_query_and_mutation_has_a_resolver_and_says_what_it_does() -> None:
    for name, field in _roots(build_schema()):
        assert field.resolve is not None, name
        assert field.description, name


@pytest.mark.anyio
async def test_every_address_is_in_the_reference(hub: Hub) -> None:
    page = PAGE.read_text()
    for route in build_primehub_routes(hub.house.services):
        begins = re.sub(r"(?<=auth-flow/).*", "...", route.path.partition("{")[0])
        assert f"`{begins}" in page or begins in UNTOLD, route.path


def _roots(schema: GraphQLSchema):  # type: ignore[no-untyped-def]
    for root in (schema.query_type, schema.mutation_type):
        assert root is not None
        yield from root.fields.items()
