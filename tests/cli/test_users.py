"""Users, groups, tokens, logins and images by command line."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from .cli_runner import Cli


def url_of(place: dict[str, str]) -> str:
    return str(json.loads((Path(place["HOLDFAST_HOME"]) / "client.json").read_text())["url"])


def test_a_user_from_cradle_to_grave(cli: Cli) -> None:
    cli.ok("user", "add", "ann", "--email", "ann@example.org", "--password-stdin", stdin=b"long-enough-1\n")
    assert "ann@example.org" in cli.ok("user", "ls").text
    assert cli.ok("user", "show", "ann", "--json").json["admin"] is False
    assert cli.ok("user", "set", "ann", "--admin", "--json").json["admin"] is True
    assert cli.ok("user", "set", "ann", "--no-admin", "--disable", "--json").json["disabled"] is True
    cli.ok("user", "passwd", "ann", "--password-stdin", stdin=b"long-enough-2\n")
    assert "--yes" in cli("user", "rm", "ann").err
    assert cli.ok("user", "rm", "ann", "--yes", "--json").json == {"removed": "ann"}
    assert cli("user", "show", "ann").code == 1


def test_passwords_are_never_asked_for_without_a_terminal(cli: Cli) -> None:
    result = cli("user", "add", "bob")
    assert result.code == 1
    assert "--password-stdin" in result.err


def test_a_group_with_quota_and_members(cli: Cli) -> None:
    made = cli.ok("group", "add", "vision", "--gpu", "4", "--memory", "64Gi", "--time-limit", "12h", "--json").json
    assert (made["quota"], made["time_limit"]) == ({"cpu": None, "memory": 64 << 30, "gpu": 4}, 43200)
    changed = cli.ok("group", "set", "vision", "--cpu", "8", "--gpu", "none", "--user-cpu", "2", "--json").json
    assert changed["quota"] == {"cpu": 8, "memory": 64 << 30, "gpu": None}
    assert changed["user_quota"]["cpu"] == 2
    assert " 0 of 8 " in cli.ok("top").text
    assert cli.ok("group", "set", "vision", "--time-limit", "default", "--json").json["time_limit"] is None
    cli.ok("user", "add", "cat", "--no-password")
    cli.ok("group", "member", "add", "vision", "cat", "--admin")
    assert "cat (admin)" in cli.ok("group", "show", "vision").text
    assert "vision" in cli.ok("group", "ls").text
    cli.ok("group", "member", "rm", "vision", "cat")
    assert "cat" not in cli.ok("group", "show", "vision", "--json").json["members"]
    cli.ok("group", "rm", "vision", "--yes")
    assert cli("group", "show", "vision").code == 1
    assert cli("group", "add", "bad", "--cpu", "lots").code == 2


def test_a_token_works_until_it_is_removed(cli: Cli, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]) -> None:
    made = cli.ok("token", "create", "nightly", "--expires", "30d", "--json").json
    assert made["token"].startswith("hf_")
    listed = cli.ok("token", "ls", "--json").json["items"]
    assert made["id"] in {token["id"] for token in listed}
    assert made["token"] not in cli.ok("token", "ls").text
    monkeypatch.setenv("HOLDFAST_URL", url_of(place))
    monkeypatch.setenv("HOLDFAST_TOKEN", made["token"])
    assert cli.ok("status", "--json").json["me"]["name"] == "admin"
    cli.ok("token", "rm", made["id"][:-2], "--yes")
    result = cli("status")
    assert result.code == 1
    assert "holdfast login" in result.err


def test_login_remembers_and_logout_forgets(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, place: dict[str, str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "nothing"))
    url, password = url_of(place), place["FIRST_PASSWORD"].encode()
    assert cli("login", url, "--user", "admin", "--password-stdin", stdin=b"wrong\n").code == 1
    cli.ok("login", url, "--user", "admin", "--password-stdin", stdin=password + b"\n")
    file = Path(os.environ["XDG_CONFIG_HOME"]) / "holdfast" / "login.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli.ok("status", "--json").json["url"] == url
    assert "saved login" in cli.ok("status").text
    token = json.loads(file.read_text())["logins"][url]["token"]
    cli.ok("logout")
    assert token not in file.read_text()
    assert cli("logout").code == 1
    monkeypatch.setenv("HOLDFAST_URL", url)
    monkeypatch.setenv("HOLDFAST_TOKEN", token)
    assert cli("status", "--json").error["code"] == "not_logged_in"


def test_login_with_a_token(cli: Cli, monkeypatch: pytest.MonkeyPatch, place: dict[str, str], tmp_path: Path) -> None:
    token = cli.ok("token", "create", "other").text.strip()
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "nothing"))
    assert cli.ok("login", url_of(place), "--token-stdin", "--json", stdin=token.encode()).json["user"] == "admin"
    assert cli.ok("status", "--json").json["me"]["admin"] is True


def test_a_saved_token_is_not_sent_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]) -> None:
    """The same server under another name is another address."""
    other = url_of(place).replace("127.0.0.1", "localhost")
    monkeypatch.setenv("HOLDFAST_URL", other)
    assert cli("ls", "--json").error["code"] == "not_logged_in"
    assert "hint: Run `holdfast login URL`.\n" in cli("ls").err


def test_own_password(cli: Cli, monkeypatch: pytest.MonkeyPatch, place: dict[str, str], tmp_path: Path) -> None:
    cli.ok("user", "add", "olga", "--password-stdin", stdin=b"first-password\n")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "nothing"))
    cli.ok("login", url_of(place), "--user", "olga", "--password-stdin", stdin=b"first-password\n")
    assert cli("user", "passwd", "--password-stdin", stdin=b"wrong\nsecond-password\n").code == 1
    cli.ok("user", "passwd", "--password-stdin", stdin=b"first-password\nsecond-password\n")
    cli.ok("login", url_of(place), "--user", "olga", "--password-stdin", stdin=b"second-password\n")
    assert cli("user", "ls").code in (0, 1)
    assert cli("user", "add", "mallory", "--no-password", "--json").error["code"] == "forbidden"


def test_images_are_imported_listed_and_removed(cli: Cli, tmp_path: Path) -> None:
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("bin", "etc", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        file = tarfile.TarInfo("bin/sh")
        file.size, file.mode = 2, 0o755
        tar.addfile(file, io.BytesIO(b"hi"))
    assert "host" in cli.ok("image", "ls").text
    assert cli.ok("image", "import", "team/tiny:1", str(archive), "--json").json["name"] == "team/tiny:1"
    assert "team/tiny:1" in cli.ok("image", "ls").text
    cli.ok("image", "rm", "team/tiny:1", "--yes")
    assert "team/tiny:1" not in cli.ok("image", "ls").text
    assert "No such file" in cli("image", "import", "x", str(tmp_path / "none.tar")).err


def test_status_and_version(cli: Cli, place: dict[str, str]) -> None:
    text = cli.ok("status").text
    assert url_of(place) in text
    assert "admin (admin)" in text
    assert "  engine     embedded\n" in text
    versions = cli.ok("version", "--server", "--json").json
    assert versions["client"] == versions["server"]
