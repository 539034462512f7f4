from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.sdk import Client, InvalidClientConfig
from holdfast.sdk.address import (
    DEFAULT_URL,
    find_address,
    get_login_path,
    load_device_token,
    load_saved_login,
    normalize_url,
    remove_login,
    save_login,
)


def write_client_json(home: Path, url: str, token: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "client.json").write_text(json.dumps({"url": url, "token": token}))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("HTTP://Example.COM:80/", "http://example.com"),
        ("https://example.com:443/holdfast/", "https://example.com/holdfast"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_one_spelling_for_one_address(written: str, meant: str) -> None:
    assert normalize_url(written) == meant


@pytest.mark.parametrize(
    "written", ["ftp://host", "http://", "http://ann:pw@host", "http://host:99999", "http://h/?x=1"]
)
def test_refuses_what_is_no_address(written: str) -> None:
    with pytest.raises(InvalidClientConfig) as caught:
        normalize_url(written)
    assert "pw@" not in caught.value.message


def test_arguments_come_before_the_environment_before_the_login_before_the_local_server(tmp_path: Path) -> None:
    write_client_json(tmp_path / ".holdfast", "http://local:1", "hf_local")
    assert find_address().url == "http://local:1"
    save_login("http://saved:2", "hf_saved", "ann", None)
    assert (find_address().url, find_address().token) == ("http://saved:2", "hf_saved")
    env = {"HOLDFAST_URL": "http://env:3", "HOLDFAST_TOKEN": "hf_env", "HOME": str(tmp_path)}
    assert (find_address(environ=env).url, find_address(environ=env).token) == ("http://env:3", "hf_env")
    given = find_address("http://given:4", "hf_given", environ=env)
    assert (given.url, given.token) == ("http://given:4", "hf_given")


def test_without_anything_it_is_the_default_address_and_nobody() -> None:
    assert (find_address().url, find_address().token) == (DEFAULT_URL, None)


def test_a_saved_token_goes_only_where_it_was_saved_for(tmp_path: Path) -> None:
    write_client_json(tmp_path / ".holdfast", "http://127.0.0.1:8080", "hf_local")
    save_login("http://saved:2", "hf_saved", "ann", None)
    assert find_address("http://evil:2").token is None
    assert find_address("http://saved:3").token is None
    assert find_address("https://saved:2").token is None
    assert find_address("http://localhost:8080").token is None
    assert find_address("HTTP://SAVED:2/").token == "hf_saved"
    assert find_address("http://127.0.0.1:8080").token == "hf_local"


def test_the_login_file_is_for_its_owner_alone() -> None:
    path = save_login("http://a", "hf_a", "ann", datetime(2026, 1, 1, tzinfo=UTC))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    save_login("http://b", "hf_b", "bob", None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["login.json"]


def test_a_device_token_is_kept_by_address_and_user_also_after_a_logout() -> None:
    save_login("http://a", "hf_a", "ann", None, device="first")
    save_login("http://a/", "hf_a", "bob", None, device="second")
    save_login("http://a", "hf_c", "ann", None)  # by a token, which gives none
    remove_login("http://a")
    assert (load_device_token("http://a", "ann"), load_device_token("HTTP://A", "bob")) == ("first", "second")
    assert (load_device_token("http://b", "ann"), load_device_token("http://a", "eve")) == ("", "")


def test_logins_are_kept_side_by_side_and_forgotten_one_by_one() -> None:
    save_login("http://a", "hf_a", "ann", None)
    save_login("http://b", "hf_b", "bob", None)
    assert find_address().url == "http://b"
    assert remove_login("http://a").token == "hf_a"  # type: ignore[union-attr]
    assert find_address().url == "http://b"
    assert remove_login().url == "http://b"  # type: ignore[union-attr]
    assert load_saved_login() is None
    assert remove_login() is None


def test_a_broken_login_file_is_named() -> None:
    get_login_path().parent.mkdir(parents=True)
    get_login_path().write_text("{")
    with pytest.raises(InvalidClientConfig, match=r"login\.json"):
        find_address()


def test_a_token_with_a_line_break_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidClientConfig) as caught:
        find_address("http://a", "hf_a\nX-Evil: 1")
    assert "hf_a" not in str(caught.value)


def test_the_token_is_in_no_representation() -> None:
    with Client("http://a", "hf_secret") as client:
        for shown in (repr(client), repr(client.address), repr(vars(client))):
            assert "hf_secret" not in shown
