"""What every store must do with what jobs choose from, and with what groups keep for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from holdfast.core.catalogue import ImageAlias, ImageKind, InstanceType
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import Group, Mlflow
from holdfast.store import image_aliases, instance_types, people
from tests.store.open_store import Opened

SMALL = InstanceType(name="small", memory=2**30)
LARGE = InstanceType(
    name="gpu-1",
    display_name="Große 資料",
    description="naïve 🚀",
    cpu=2.5,
    memory=2**50,
    gpu=10_000,
    cpu_request=0.1,
    memory_request=1,
    gpu_resource="amd.com/gpu",
    tolerations=({"operator": "Equal", "key": "gpu", "value": "yes"}, {"operator": "Exists"}),
    node_selector={"disk": "ssd"},
    everyone=False,
    groups=("blue", "red"),
    brought=True,
)
PLAIN = ImageAlias(name="base", url="base:1")
RICH = ImageAlias(
    name="torch",
    display_name="PyTorch 資料",
    description="🚀",
    kind=ImageKind.BOTH,
    url="registry.example/torch:2",
    gpu_url="registry.example/torch:2-cuda",
    owner="red",
    everyone=True,
    groups=("blue", "red"),
)
TRACKED = Mlflow(
    tracking_uri="http://mlflow:5000",
    ui_url="http://mlflow/ui",
    tracking_envs={"MLFLOW_TRACKING_TOKEN": "swordfish 資料"},
    artifact_envs={"AWS_SECRET": "line\nbreak"},
)


def a_group(opened: Opened, *names: str) -> None:
    for name in names:
        opened.write(people.create_group, group=Group(name=name))


class CatalogueContract:
    def test_a_size_comes_back_as_it_was(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        for type in (SMALL, LARGE):
            opened.write(instance_types.create_instance_type, type)
        assert opened.read(instance_types.get_instance_type, "gpu-1") == LARGE
        assert opened.read(instance_types.list_instance_types) == [LARGE, SMALL]
        assert opened.read(instance_types.get_instance_type, "GPU-1") is None
        assert opened.read(instance_types.get_instance_type, "gpu\0-1") is None

    def test_a_size_is_changed_as_a_whole_with_its_groups(self, opened: Opened) -> None:
        a_group(opened, "red", "blue", "green")
        opened.write(instance_types.create_instance_type, LARGE)
        changed = replace(SMALL, name="gpu-1", groups=("green",))
        opened.write(instance_types.update_instance_type, changed)
        assert opened.read(instance_types.get_instance_type, "gpu-1") == changed
        with pytest.raises(NotFound, match="Instance type small not found"):
            opened.write(instance_types.update_instance_type, SMALL)

    def test_a_size_needs_a_free_name_and_groups_that_are_there(self, opened: Opened) -> None:
        opened.write(instance_types.create_instance_type, SMALL)
        with pytest.raises(Conflict, match="Instance type small already exists"):
            opened.write(instance_types.create_instance_type, replace(SMALL, cpu=9))
        with pytest.raises(NotFound, match="Group red not found"):
            opened.write(instance_types.create_instance_type, replace(SMALL, name="b", groups=("red",)))
        with pytest.raises(NotFound, match="Group red not found"):
            opened.write(instance_types.update_instance_type, replace(SMALL, cpu=9, groups=("red",)))
        assert opened.read(instance_types.list_instance_types) == [SMALL]

    def test_groups_come_and_go(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(instance_types.create_instance_type, LARGE)
        assert opened.write(instance_types.GRANTS.revoke, "gpu-1", "red") is True
        assert opened.write(instance_types.GRANTS.revoke, "gpu-1", "red") is False
        for _ in range(2):
            opened.write(instance_types.GRANTS.grant, "gpu-1", "red")
        opened.write(people.delete_group, "blue")
        assert opened.read(instance_types.get_instance_type, "gpu-1") == replace(LARGE, groups=("red",))
        opened.write(instance_types.delete_instance_type, "gpu-1")
        with pytest.raises(NotFound):
            opened.write(instance_types.delete_instance_type, "gpu-1")
        opened.write(instance_types.create_instance_type, replace(LARGE, groups=()))
        assert opened.read(instance_types.get_instance_type, "gpu-1") == replace(LARGE, groups=())

    def test_what_is_put_in_at_first_is_put_in_once(self, opened: Opened) -> None:
        opened.write(instance_types.seed_instance_types, [SMALL])
        opened.write(instance_types.delete_instance_type, "small")
        opened.write(instance_types.seed_instance_types, [SMALL])
        assert opened.read(instance_types.list_instance_types) == []

    def test_nothing_is_put_in_beside_what_is_there(self, opened: Opened) -> None:
        opened.write(image_aliases.create_image_alias, PLAIN)
        opened.write(image_aliases.seed_image_aliases, [ImageAlias(name="host", url="host")])
        assert opened.read(image_aliases.list_image_aliases) == [PLAIN]

    def test_an_alias_comes_back_as_it_was(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        for alias in (RICH, PLAIN):
            opened.write(image_aliases.create_image_alias, alias)
        assert opened.read(image_aliases.get_image_alias, "torch") == RICH
        assert opened.read(image_aliases.list_image_aliases) == [PLAIN, RICH]
        changed = replace(PLAIN, name="torch", groups=("blue",))
        opened.write(image_aliases.update_image_alias, changed)
        assert opened.read(image_aliases.get_image_alias, "torch") == changed

    @pytest.mark.parametrize(
        ("alias", "why"),
        [
            (replace(PLAIN, url="other"), "Image alias base already exists"),
            (ImageAlias(name="b", url="u", owner="none"), "Group none not found"),
            (ImageAlias(name="b", url="u", groups=("none",)), "Group none not found"),
            (ImageAlias(name="b", url="u", pull_secret="none"), "Secret none of kind registry not found"),
        ],
    )
    def test_an_alias_needs_what_it_names(self, opened: Opened, alias: ImageAlias, why: str) -> None:
        opened.write(image_aliases.create_image_alias, PLAIN)
        with pytest.raises((Conflict, NotFound), match=why):
            opened.write(image_aliases.create_image_alias, alias)
        assert opened.read(image_aliases.list_image_aliases) == [PLAIN]

    def test_a_groups_own_aliases_go_with_it(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(image_aliases.create_image_alias, RICH)
        opened.write(image_aliases.create_image_alias, replace(PLAIN, groups=("red",)))
        opened.write(people.delete_group, "red")
        assert opened.read(image_aliases.list_image_aliases) == [PLAIN]

    def test_mlflow_is_sealed_and_belongs_to_one_group(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(people.set_group_mlflow, "red", TRACKED)
        assert opened.read(people.load_group_mlflow, "red") == TRACKED
        assert opened.read(people.load_group_mlflow, "blue") is None
        assert opened.read(people.load_group_mlflow, "none") is None
        sealed = opened.read(lambda conn: conn.scalar(text("SELECT mlflow FROM groups WHERE name = 'red'")))
        assert b"swordfish" not in bytes(sealed)
        assert b"mlflow:5000" not in bytes(sealed)
        opened.write(people.update_group, group=Group(name="red", description="changed"))
        assert opened.read(people.load_group_mlflow, "red") == TRACKED
        opened.write(people.set_group_mlflow, "red", None)
        assert opened.read(people.load_group_mlflow, "red") is None
        with pytest.raises(NotFound):
            opened.write(people.set_group_mlflow, "none", TRACKED)
