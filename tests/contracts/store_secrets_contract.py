"""What every store must do with secrets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.catalogue import ImageAlias, Secret, SecretKind
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import Dataset
from holdfast.store import datasets, image_aliases, secrets
from tests.store.open_store import Opened

KEY = Secret(name="key", display_name="naïve 資料")
REGISTRY = Secret(name="reg", kind=SecretKind.REGISTRY, registry_host="ghcr.io", username="ann")


class SecretsContract:
    def test_a_secret_comes_back_as_it_was(self, opened: Opened) -> None:
        for secret in (REGISTRY, KEY):
            opened.write(secrets.create_secret, secret, f"value of {secret.name} 資料")
        assert opened.read(secrets.list_secrets) == [KEY, REGISTRY]
        assert opened.read(secrets.get_secret, "reg") == REGISTRY
        assert opened.read(secrets.load_secret_value, "reg") == "value of reg 資料"
        for missing in ("none", "Key", "ke\0y"):
            assert opened.read(secrets.get_secret, missing) is None
            assert opened.read(secrets.load_secret_value, missing) is None

    def test_a_name_is_taken_once(self, opened: Opened) -> None:
        opened.write(secrets.create_secret, KEY, "one")
        with pytest.raises(Conflict):
            opened.write(secrets.create_secret, KEY, "two")
        assert opened.read(secrets.load_secret_value, "key") == "one"

    def test_the_value_stays_where_none_is_given(self, opened: Opened) -> None:
        opened.write(secrets.create_secret, KEY, "one")
        opened.write(secrets.update_secret, replace(KEY, display_name="x"), None)
        assert opened.read(secrets.get_secret, "key") == replace(KEY, display_name="x")
        assert opened.read(secrets.load_secret_value, "key") == "one"
        opened.write(secrets.update_secret, KEY, "two")
        assert opened.read(secrets.load_secret_value, "key") == "two"

    def test_what_is_not_there(self, opened: Opened) -> None:
        with pytest.raises(NotFound):
            opened.write(secrets.update_secret, KEY, None)
        with pytest.raises(NotFound):
            opened.write(secrets.delete_secret, "key")

    def test_who_would_miss_it(self, opened: Opened) -> None:
        opened.write(secrets.create_secret, KEY, "one")
        assert opened.read(secrets.list_secret_references, "key") == []
        code = Dataset(name="code", path="", kind="git", data={"url": "u", "secret": "key"})
        opened.write(datasets.create_dataset, dataset=code)
        opened.write(datasets.create_dataset, dataset=replace(code, name="other", data={"url": "key"}))
        assert opened.read(secrets.list_secret_references, "key") == ["dataset code"]
        opened.write(secrets.create_secret, REGISTRY, "two")
        opened.write(image_aliases.create_image_alias, ImageAlias(name="torch", url="u", pull_secret="reg"))
        assert opened.read(secrets.list_secret_references, "reg") == ["image torch"]
        opened.write(secrets.delete_secret, "key")
        assert opened.read(secrets.list_secrets) == [REGISTRY]
