from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bootstrap import serve, start_components
from holdfast.core.errors import UserError
from holdfast.settings import Settings, load_settings
from holdfast.state_folder import create_state_folder

pytestmark = pytest.mark.anyio


def server(folder: Path, shared: Path) -> tuple[Path, Settings]:
    create_state_folder(folder)
    return folder, load_settings(folder, {}, {"files.folder": str(shared)})


async def test_two_servers_never_share_a_folder_of_groups_files(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    async with start_components(*server(tmp_path / "one", shared)):
        with pytest.raises(UserError, match="Another Holdfast server") as refused:
            async with start_components(*server(tmp_path / "two", shared)):
                pass
        assert refused.value.field == "files.folder"
    async with start_components(*server(tmp_path / "two", shared)) as (services, _):
        assert services.shared.root == shared


def test_a_server_with_too_few_files_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    with pytest.raises(UserError, match="open files is 100"):
        serve(tmp_path / "home", load_settings(tmp_path, {}))
