"""Instance types: named sizes, and the groups they are granted to."""

from __future__ import annotations

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from .grants import Grants
from .named_table import Catalogue
from .tables import instance_type_groups, instance_types

GRANTS = Grants(instance_type_groups)
_INSTANCE_TYPE_CATALOGUE = Catalogue(
    InstanceType,
    instance_types,
    GRANTS,
    in_use=lambda name: msg("Instance type {name} already exists", name=name),
    not_found=lambda name: NotFound(msg("Instance type {name} not found", name=name[:100])),
)
create_instance_type = _INSTANCE_TYPE_CATALOGUE.create
seed_instance_types = _INSTANCE_TYPE_CATALOGUE.seed
get_instance_type = _INSTANCE_TYPE_CATALOGUE.get
list_instance_types = _INSTANCE_TYPE_CATALOGUE.list_records
update_instance_type = _INSTANCE_TYPE_CATALOGUE.update
delete_instance_type = _INSTANCE_TYPE_CATALOGUE.delete_row
