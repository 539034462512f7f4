"""Query texts that were read and found good, kept: clients send the same few over and over.

Reading one costs milliseconds in which nothing else would be done, so it is left to a thread, a few at a time; what is
long, deep or asks for much is refused before it is looked at closely.
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
MAX_FIELDS = 300  # with every fragment written out
MAX_WRITTEN = 600  # in all operations and fragments together
MAX_DEPTH = 20
MAX_ROOTS = 20  # things asked for at once
MAX_LOOKED_UP = 400_000  # parts of the schema that a query about the schema itself may be shown
KEPT = 200
MAX_KEPT_LENGTH = (
    4096  # characters; twice what any client is known to send. A text that was read takes 100 times as much
)
OWN_QUERY = "Ask for the schema in a query of its own"
AT_A_TIME = 2

# About how many there are of what the schema tells of itself.
_MANY = {"types": 200, "fields": 10, "inputFields": 10, "args": 3, "enumValues": 4, "directives": 5}
_OF_SCHEMA = ("__schema", "__type")


class Refused(Exception):
    def __init__(self, errors: Sequence[GraphQLError]) -> None:
        super().__init__(errors[0].message)
        self.errors = list(errors)


@dataclass(frozen=True, slots=True)
class Document:
    node: DocumentNode
    fields: int  # with every fragment written out
    about_schema: bool  # asks for nothing but the schema itself


class Documents:
    def __init__(self, schema: GraphQLSchema) -> None:
        self._schema = schema
        self._kept: OrderedDict[str, Document] = OrderedDict()
        self._reading = asyncio.Semaphore(AT_A_TIME)

    async def get(self, text: str) -> Document:
        """Refused when it is no good."""
        if len(text) > MAX_QUERY_LENGTH:
            raise _refuse(f"A query may have at most {MAX_QUERY_LENGTH} characters, this one has {len(text)}")
        return self._find(text) or await self._read(text)

    async def _read(self, text: str) -> Document:
        async with self._reading:
            found = self._find(text)  # by somebody else, meanwhile
            if found is None:
                found = await asyncio.to_thread(read_document, self._schema, text)
                self._keep(text, found)
        return found

    def _find(self, text: str) -> Document | None:
        if text in self._kept:
            self._kept.move_to_end(text)
        return self._kept.get(text)

    def _keep(self, text: str, document: Document) -> None:
        if len(text) <= MAX_KEPT_LENGTH:
            self._kept[text] = document
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def read_document(schema: GraphQLSchema, text: str) -> Document:
    try:
        node = parse(text, max_tokens=MAX_TOKENS, allow_empty_selection_sets=False)
        fields, about_schema = _measure(node)
    except GraphQLError as error:
        raise Refused([error]) from None
    except RecursionError:
        raise _refuse("The query is too deep") from None
    errors = validate(schema, node, max_errors=20)
    if errors:
        raise Refused(
            [GraphQLError(error.message, error.nodes) for error in errors]
        )  # less what a number did to Python
    return Document(node, fields, about_schema)


def _refuse(message: str) -> Refused:
    return Refused([GraphQLError(message)])


@dataclass(frozen=True, slots=True)
class _Size:
    fields: int = 0
    depth: int = 0
    looked_up: int = 0  # parts of the schema

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.fields + other.fields, max(self.depth, other.depth), self.looked_up + other.looked_up)


def _measure(document: DocumentNode) -> tuple[int, bool]:
    """How many fields it has, and whether all it asks for is the schema; GraphQLError when it is too much."""
    sizes = _Sizes(document)
    fields, kinds = 0, set()
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            size = sizes.of_set(definition.selection_set)
            _check(size)
            fields = max(fields, size.fields)
            kinds.add(_check_roots(sizes.roots(definition.selection_set)))
    if len(kinds) > 1:
        raise GraphQLError(OWN_QUERY)
    if sizes.of_all() > MAX_WRITTEN:
        raise GraphQLError(f"Operations and fragments may name at most {MAX_WRITTEN} fields together")
    return fields, True in kinds


def _check(size: _Size) -> None:
    if size.fields > MAX_FIELDS:
        raise GraphQLError(f"A query may ask for at most {MAX_FIELDS} fields, this one asks for {size.fields}")
    if size.depth > MAX_DEPTH:
        raise GraphQLError(f"A query may be at most {MAX_DEPTH} fields deep, this one is {size.depth}")
    if size.looked_up > MAX_LOOKED_UP:
        raise GraphQLError("The query asks for too much of the schema at once")


def _check_roots(names: Sequence[str]) -> bool:
    if len(names) > MAX_ROOTS:
        raise GraphQLError(f"A query may ask for at most {MAX_ROOTS} things at once, this one asks for {len(names)}")
    of_schema = [name for name in names if name in _OF_SCHEMA]
    if of_schema and len(of_schema) < len([name for name in names if name != "__typename"]):
        raise GraphQLError(OWN_QUERY)
    return bool(of_schema)


class _Sizes:
    """Each fragment is measured once, however often it is used: written out, a few lines can stand for billions."""

    def __init__(self, document: DocumentNode) -> None:
        self._definitions = document.definitions
        self._fragments = {
            each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
        }
        self._known: dict[tuple[str, bool], _Size] = {}
        self._open: set[str] = set()

    def of_all(self) -> int:
        """Fields of every operation and fragment, used or not: all are looked at, each field beside each other."""
        return sum(self.of_set(getattr(each, "selection_set", None)).fields for each in self._definitions)

    def of_set(self, selected: SelectionSetNode | None, *, in_schema: bool = False) -> _Size:
        total = _Size()
        for each in selected.selections if selected else ():
            total = total + self._of(each, in_schema)
        return total

    def _of(self, node: SelectionNode, in_schema: bool) -> _Size:
        if isinstance(node, FragmentSpreadNode):
            return self._of_fragment(node.name.value, in_schema)
        inner_schema = in_schema or (isinstance(node, FieldNode) and node.name.value in _OF_SCHEMA)
        inner = self.of_set(getattr(node, "selection_set", None), in_schema=inner_schema)
        if not isinstance(node, FieldNode):
            return inner
        looked_up = (1 + inner.looked_up) * _MANY.get(node.name.value, 1) if inner_schema else 0
        return _Size(1 + inner.fields, 1 + inner.depth, looked_up)

    def _of_fragment(self, name: str, in_schema: bool) -> _Size:
        if name in self._open:
            raise GraphQLError(f"The fragment {name[:100]} contains itself")
        key = (name, in_schema)
        if key not in self._known and name in self._fragments:
            self._open.add(name)
            self._known[key] = self.of_set(self._fragments[name].selection_set, in_schema=in_schema)
            self._open.discard(name)
        return self._known.get(key, _Size())

    def roots(self, selected: SelectionSetNode) -> list[str]:
        """Names of what is asked for at the top; to be called once `of_set` has found that there are not too many."""
        names: list[str] = []
        for each in selected.selections:
            if isinstance(each, FieldNode):
                names.append(each.name.value)
            elif isinstance(each, FragmentSpreadNode):
                fragment = self._fragments.get(each.name.value)
                names += self.roots(fragment.selection_set) if fragment else []
            else:
                names += self.roots(getattr(each, "selection_set"))  # noqa: B009
        return names
