"""The schema with its resolvers: `schema.graphql`, and a module for each noun.

A module of resolvers says what it binds in BINDABLES; NOUNS lists the modules. A query or mutation that none of them
binds would be answered with null, so a test looks for those.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ariadne import load_schema_from_path, make_executable_schema
from graphql import GraphQLSchema

from . import absent, files, folders, links, reports
from .catalogue import admin_secrets, images, instance_types, secrets, volumes
from .graphql.scalars import json_type
from .jobs import resolvers as jobs
from .jobs import schedules
from .people import admin_groups, admin_users, groups, me, users

NOUNS = (
    absent,
    admin_groups,
    admin_secrets,
    admin_users,
    files,
    folders,
    groups,
    images,
    instance_types,
    jobs,
    links,
    me,
    reports,
    schedules,
    secrets,
    users,
    volumes,
)

TEXT = Path(__file__).with_name("schema.graphql")


@cache
def build_schema() -> GraphQLSchema:
    bindables = [bindable for noun in NOUNS for bindable in noun.BINDABLES]
    return make_executable_schema(load_schema_from_path(str(TEXT)), json_type, *bindables, convert_names_case=False)
