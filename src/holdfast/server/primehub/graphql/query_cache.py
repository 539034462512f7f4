"""Cache of parsed and validated queries: clients send the same few again and again.

Parsing takes milliseconds of CPU, so a few threads do it; long, deep or large queries are rejected before validation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    parse,
    validate,
)

from .bodies import MAX_QUERY_LENGTH

MAX_TOKENS = 2000
MAX_FIELDS = 300  # with all fragments expanded
MAX_DOCUMENT_FIELDS = 600  # in all operations and fragments together
MAX_DEPTH = 20
MAX_ROOT_FIELDS = 20  # root fields
MAX_INTROSPECTED_ITEMS = 400_000  # schema items in the result of an introspection query
MAX_CACHED_QUERIES = 200
MAX_CACHED_LENGTH = (
    4096  # characters; twice the longest of known clients. A parsed query takes 100 times as much memory
)
SEPARATE_QUERY_MESSAGE = "Send schema introspection as a separate query"
MAX_PARSER_THREADS = 2

# Approximate number of items for each introspection field.
_SCHEMA_FIELD_SIZES = {"types": 200, "fields": 10, "inputFields": 10, "args": 3, "enumValues": 4, "directives": 5}
_INTROSPECTION_FIELDS = ("__schema", "__type")


class QueryRejected(Exception):
    def __init__(self, errors: Sequence[GraphQLError]) -> None:
        super().__init__(errors[0].message)
        self.errors = list(errors)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    node: DocumentNode
    fields: int  # with all fragments expanded
    is_introspection: bool  # schema introspection only


class QueryCache:
    def __init__(self, schema: GraphQLSchema) -> None:
        self._schema = schema
        self._cached_queries: OrderedDict[str, ParsedQuery] = OrderedDict()
        self._parser_slots = asyncio.Semaphore(MAX_PARSER_THREADS)

    async def get_query(self, text: str) -> ParsedQuery:
        """Return the parsed query; raise QueryRejected if it is not valid."""
        if len(text) > MAX_QUERY_LENGTH:
            raise _build_query_rejection(f"The query has {len(text)} characters; the limit is {MAX_QUERY_LENGTH}")
        return self._find_cached_query(text) or await self._parse_in_thread(text)

    async def _parse_in_thread(self, text: str) -> ParsedQuery:
        async with self._parser_slots:
            found = self._find_cached_query(text)  # by another request in the meantime
            if found is None:
                found = await asyncio.to_thread(parse_query, self._schema, text)
                self._cache_query(text, found)
        return found

    def _find_cached_query(self, text: str) -> ParsedQuery | None:
        if text in self._cached_queries:
            self._cached_queries.move_to_end(text)
        return self._cached_queries.get(text)

    def _cache_query(self, text: str, document: ParsedQuery) -> None:
        if len(text) <= MAX_CACHED_LENGTH:
            self._cached_queries[text] = document
        if len(self._cached_queries) > MAX_CACHED_QUERIES:
            self._cached_queries.popitem(last=False)


def parse_query(schema: GraphQLSchema, text: str) -> ParsedQuery:
    try:
        node = parse(text, max_tokens=MAX_TOKENS, allow_empty_selection_sets=False)
        fields, about_schema = _measure_query(node)
    except GraphQLError as error:
        raise QueryRejected([error]) from None
    except RecursionError:
        raise _build_query_rejection("The query is nested too deeply") from None
    errors = validate(schema, node, max_errors=20)
    if errors:
        raise QueryRejected(
            [GraphQLError(error.message, error.nodes) for error in errors]
        )  # without the memory of the parser's exception
    return ParsedQuery(node, fields, about_schema)


def _build_query_rejection(message: str) -> QueryRejected:
    return QueryRejected([GraphQLError(message)])


@dataclass(frozen=True, slots=True)
class _QuerySize:
    fields: int = 0
    depth: int = 0
    introspected_items: int = 0  # schema items

    def __add__(self, other: _QuerySize) -> _QuerySize:
        return _QuerySize(
            self.fields + other.fields, max(self.depth, other.depth), self.introspected_items + other.introspected_items
        )


def _measure_query(document: DocumentNode) -> tuple[int, bool]:
    """Return the number of fields, and whether it is introspection only; raise GraphQLError when it is too large."""
    sizes = _QueryMeasurer(document)
    fields, kinds = 0, set()
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            size = sizes.measure_selection_set(definition.selection_set)
            _check_size(size)
            fields = max(fields, size.fields)
            kinds.add(_check_root_fields(sizes.list_root_fields(definition.selection_set)))
    if len(kinds) > 1:
        raise GraphQLError(SEPARATE_QUERY_MESSAGE)
    if sizes.count_all_fields() > MAX_DOCUMENT_FIELDS:
        raise GraphQLError(f"Operations and fragments exceed the limit of {MAX_DOCUMENT_FIELDS} fields")
    return fields, True in kinds


def _check_size(size: _QuerySize) -> None:
    if size.fields > MAX_FIELDS:
        raise GraphQLError(f"The query has {size.fields} fields; the limit is {MAX_FIELDS}")
    if size.depth > MAX_DEPTH:
        raise GraphQLError(f"The query is nested {size.depth} levels deep; the limit is {MAX_DEPTH}")
    if size.introspected_items > MAX_INTROSPECTED_ITEMS:
        raise GraphQLError("The introspection query is too large")


def _check_root_fields(names: Sequence[str]) -> bool:
    if len(names) > MAX_ROOT_FIELDS:
        raise GraphQLError(f"The query has {len(names)} root fields; the limit is {MAX_ROOT_FIELDS}")
    of_schema = [name for name in names if name in _INTROSPECTION_FIELDS]
    if of_schema and len(of_schema) < len([name for name in names if name != "__typename"]):
        raise GraphQLError(SEPARATE_QUERY_MESSAGE)
    return bool(of_schema)


class _QueryMeasurer:
    """Measures each fragment once, however often it is used: expanded, a few lines can become billions of fields."""

    def __init__(self, document: DocumentNode) -> None:
        self._definitions = document.definitions
        self._fragments = {
            each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
        }
        self._fragment_sizes: dict[tuple[str, bool], _QuerySize] = {}
        self._open_fragments: set[str] = set()

    def count_all_fields(self) -> int:
        """Return the number of fields in all operations and fragments, used or not: validation compares them all."""
        return sum(
            self.measure_selection_set(getattr(each, "selection_set", None)).fields for each in self._definitions
        )

    def measure_selection_set(self, selected: SelectionSetNode | None, *, in_schema: bool = False) -> _QuerySize:
        total = _QuerySize()
        for each in selected.selections if selected else ():
            total = total + self._measure_selection(each, in_schema)
        return total

    def _measure_selection(self, node: SelectionNode, in_schema: bool) -> _QuerySize:
        if isinstance(node, FragmentSpreadNode):
            return self._measure_fragment(node.name.value, in_schema)
        inner_schema = in_schema or (isinstance(node, FieldNode) and node.name.value in _INTROSPECTION_FIELDS)
        inner = self.measure_selection_set(getattr(node, "selection_set", None), in_schema=inner_schema)
        if not isinstance(node, FieldNode):
            return inner
        looked_up = (1 + inner.introspected_items) * _SCHEMA_FIELD_SIZES.get(node.name.value, 1) if inner_schema else 0
        return _QuerySize(1 + inner.fields, 1 + inner.depth, looked_up)

    def _measure_fragment(self, name: str, in_schema: bool) -> _QuerySize:
        if name in self._open_fragments:
            raise GraphQLError(f"Fragment {name[:100]} contains itself")
        key = (name, in_schema)
        if key not in self._fragment_sizes and name in self._fragments:
            self._open_fragments.add(name)
            self._fragment_sizes[key] = self.measure_selection_set(
                self._fragments[name].selection_set, in_schema=in_schema
            )
            self._open_fragments.discard(name)
        return self._fragment_sizes.get(key, _QuerySize())

    def list_root_fields(self, selected: SelectionSetNode) -> list[str]:
        """Return the names of the root fields; call it after `measure_selection_set` has checked their number."""
        names: list[str] = []
        for each in selected.selections:
            if isinstance(each, FieldNode):
                names.append(each.name.value)
            elif isinstance(each, FragmentSpreadNode):
                fragment = self._fragments.get(each.name.value)
                names += self.list_root_fields(fragment.selection_set) if fragment else []
            else:
                names += self.list_root_fields(getattr(each, "selection_set"))  # noqa: B009
        return names
