"""The schema is whole: all that the SDK asks for is in it, and all that is in it is answered."""

from __future__ import annotations

import pytest
from graphql import GraphQLSchema

from holdfast.server.primehub.documents import Refused, read_document
from holdfast.server.primehub.schema import build_schema

from .sdk_documents import sdk_documents

DOCUMENTS = sdk_documents()


def test_all_operations_of_the_sdk_were_found() -> None:
    assert len(DOCUMENTS) == 114


@pytest.mark.parametrize("place", DOCUMENTS)
def test_every_operation_of_the_sdk_is_in_the_schema(place: str) -> None:
    try:
        read_document(build_schema(), DOCUMENTS[place])
    except Refused as refused:
        pytest.fail("\n".join(error.message for error in refused.errors))


# What admins do, files and reports.
NOT_YET = [
    "users",
    "usersConnection",
    "groups",
    "groupsConnection",
    "image",
    "images",
    "imagesConnection",
    "instanceType",
    "instanceTypes",
    "instanceTypesConnection",
    "dataset",
    "datasets",
    "datasetsConnection",
    "secret",
    "secretsConnection",
    "files",
    "datasetV2",
    "datasetV2Connection",
    "usageReportsConnection",
    "createUser",
    "updateUser",
    "deleteUser",
    "resetPassword",
    "createGroup",
    "deleteGroup",
    "createImage",
    "updateImage",
    "deleteImage",
    "createInstanceType",
    "updateInstanceType",
    "deleteInstanceType",
    "createDataset",
    "updateDataset",
    "deleteDataset",
    "regenerateUploadServerSecret",
    "createSecret",
    "updateSecret",
    "deleteSecret",
    "deleteFiles",
    "createDatasetV2",
    "updateDatasetV2",
    "deleteDatasetV2",
]


def test_every_query_and_mutation_has_a_resolver_and_says_what_it_does() -> None:
    for name, field in _roots(build_schema()):
        assert (field.resolve is None) is (name in NOT_YET), name
        assert field.description, name


def _roots(schema: GraphQLSchema):  # type: ignore[no-untyped-def]
    for root in (schema.query_type, schema.mutation_type):
        assert root is not None
        yield from root.fields.items()
