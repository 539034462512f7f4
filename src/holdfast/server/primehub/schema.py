"""The schema with its resolvers: `schema.graphql`, and a module for each noun.

A module of resolvers lists its bindings in BINDABLES; RESOLVER_MODULES lists the modules. A query or mutation without a
resolver would return null, so a test checks for them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ariadne import load_schema_from_path, make_executable_schema
from graphql import GraphQLSchema

from . import files, folders, relation_resolvers, reports, unsupported
from .catalogue import images, instance_types, secrets, volumes
from .graphql.scalars import json_type
from .jobs import resolvers as jobs
from .jobs import schedules
from .people import admin_groups, admin_users, groups, me, users

RESOLVER_MODULES = (
    unsupported,
    admin_groups,
    admin_users,
    files,
    folders,
    groups,
    images,
    instance_types,
    jobs,
    relation_resolvers,
    me,
    reports,
    schedules,
    secrets,
    users,
    volumes,
)

SCHEMA_PATH = Path(__file__).with_name("schema.graphql")


@cache
def build_schema() -> GraphQLSchema:
    bindables = [bindable for noun in RESOLVER_MODULES for bindable in noun.BINDABLES]
    return make_executable_schema(
        load_schema_from_path(str(SCHEMA_PATH)), json_type, *bindables, convert_names_case=False
    )
