"""What every store must do with datasets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import Dataset, Group
from holdfast.store import datasets, people
from tests.store.open_store import Opened

FULL = Dataset(
    name="wiki",
    path="/data/wïki 資料",
    description="naïve 資料 🚀",
    read_only=False,
    everyone=True,
    groups=("blue", "red"),
    per_user=True,
    default=True,
    kind="nfs",
    data={"server": "files", "path": "/export"},
)


def a_group(opened: Opened, *names: str) -> None:
    for name in names:
        opened.write(people.create_group, group=Group(name=name))


class DatasetsContract:
    def test_a_dataset_comes_back_as_it_was(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        plain = Dataset(name="a", path="/a")
        for dataset in (FULL, plain):
            opened.write(datasets.create_dataset, dataset=dataset)
        assert opened.read(datasets.get_dataset, "wiki") == FULL
        assert opened.read(datasets.list_datasets) == [plain, FULL]
        assert opened.read(datasets.get_dataset, "Wiki") is None
        assert opened.read(datasets.get_dataset, "wi\0ki") is None

    def test_a_name_is_taken_once(self, opened: Opened) -> None:
        opened.write(datasets.create_dataset, dataset=Dataset(name="a", path="/a"))
        with pytest.raises(Conflict, match="Dataset a already exists"):
            opened.write(datasets.create_dataset, dataset=Dataset(name="a", path="/b"))
        assert opened.read(datasets.list_datasets) == [Dataset(name="a", path="/a")]

    def test_nothing_is_kept_when_a_group_is_missing(self, opened: Opened) -> None:
        with pytest.raises(NotFound, match="Group none not found"):
            opened.write(datasets.create_dataset, dataset=Dataset(name="a", path="/a", groups=("none",)))
        assert opened.read(datasets.list_datasets) == []

    def test_changing_leaves_grants_alone(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(datasets.create_dataset, dataset=FULL)
        changed = replace(FULL, path="/new", read_only=True, default=False, kind="folder", data={}, groups=())
        opened.write(datasets.update_dataset, dataset=changed)
        assert opened.read(datasets.get_dataset, "wiki") == replace(changed, groups=("blue", "red"))
        with pytest.raises(NotFound):
            opened.write(datasets.update_dataset, dataset=replace(FULL, name="other"))

    def test_grants_come_and_go(self, opened: Opened) -> None:
        a_group(opened, "red")
        opened.write(datasets.create_dataset, dataset=Dataset(name="a", path="/a"))
        for _ in range(2):
            opened.write(datasets.insert_dataset_grant, "a", "red")
        assert opened.read(datasets.get_dataset, "a") == Dataset(name="a", path="/a", groups=("red",))
        assert opened.write(datasets.delete_dataset_grant, "a", "red") is True
        assert opened.write(datasets.delete_dataset_grant, "a", "red") is False
        assert opened.read(datasets.get_dataset, "a") == Dataset(name="a", path="/a")

    def test_grants_go_with_the_group(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(datasets.create_dataset, dataset=FULL)
        opened.write(people.delete_group, "red")
        assert opened.read(datasets.get_dataset, "wiki") == replace(FULL, groups=("blue",))

    def test_a_new_dataset_inherits_no_grants(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        opened.write(datasets.create_dataset, dataset=FULL)
        opened.write(datasets.delete_dataset, "wiki")
        with pytest.raises(NotFound):
            opened.write(datasets.delete_dataset, "wiki")
        opened.write(datasets.create_dataset, dataset=replace(FULL, groups=()))
        assert opened.read(datasets.get_dataset, "wiki") == replace(FULL, groups=())

    def test_variables_are_kept_apart_and_sealed(self, opened: Opened) -> None:
        opened.write(datasets.create_dataset, dataset=Dataset(name="a", path="", kind="env"), variables={"A": "hush"})
        opened.write(datasets.create_dataset, dataset=Dataset(name="b", path="", kind="env"), variables={})
        opened.write(datasets.create_dataset, dataset=Dataset(name="c", path="/c"))
        assert opened.read(datasets.load_dataset_variables, ["a", "b", "c", "none"]) == {"a": {"A": "hush"}, "b": {}}
        opened.write(datasets.set_dataset_variables, "a", {"B": "資料"})
        assert opened.read(datasets.load_dataset_variables, ["a"]) == {"a": {"B": "資料"}}
        with pytest.raises(NotFound):
            opened.write(datasets.set_dataset_variables, "none", {})

    def test_each_group_with_its_own_right_to_write(self, opened: Opened) -> None:
        a_group(opened, "red", "blue")
        made = Dataset(name="a", path="/a", groups=("blue", "red"), writable_groups=("red",))
        opened.write(datasets.create_dataset, dataset=made)
        assert opened.read(datasets.get_dataset, "a") == made
        opened.write(datasets.insert_dataset_grant, "a", "blue", writable=True)
        opened.write(datasets.insert_dataset_grant, "a", "red")
        assert opened.read(datasets.get_dataset, "a") == replace(made, writable_groups=("blue",))

    def test_nothing_runs_in_a_new_database(self, opened: Opened) -> None:
        assert opened.read(datasets.find_oldest_started_job_time) is None
