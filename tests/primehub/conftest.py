from __future__ import annotations

from collections.abc import Iterator

import pytest

from .place import Place, User, place


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("primehub")) as opened:
        yield opened


@pytest.fixture
def ann(hub: Place) -> User:
    return hub.ann


@pytest.fixture
def bob(hub: Place) -> User:
    return hub.bob
