from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.services.client_network import normalize_address
from holdfast.services.errors import TooManyRequests
from holdfast.services.people import login_throttle
from holdfast.services.people.login_devices import DEVICE_TOKEN_LIFETIME, NEW_DEVICE_LIMIT, LoginDevices
from holdfast.services.people.login_throttle import ADDRESS_LIMIT, DEVICE_LIMIT, USER_LIMIT, LoginThrottle

from .house import Clock

MARK = "of a password"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(lambda: clock.monotonic)


def fail(throttle: LoginThrottle, times: int, user: str = "alice", address: str = "10.0.0.1", device: str = "") -> int:
    """How many of so many tries were admitted."""
    admitted = 0
    for _ in range(times):
        try:
            throttle.admit_attempt(user, address, device=device)
        except TooManyRequests:
            continue
        admitted += 1
    return admitted


def test_some_failures_are_free_then_each_takes_time(throttle: LoginThrottle, clock: Clock) -> None:
    assert fail(throttle, 100) == ADDRESS_LIMIT.burst
    for _ in range(4):
        with pytest.raises(TooManyRequests) as caught:
            throttle.admit_attempt("alice", "10.0.0.1")
        clock.forward(caught.value.retry_after)
        assert fail(throttle, 3) == 1


def test_other_users_and_other_addresses_are_not_affected(throttle: LoginThrottle) -> None:
    fail(throttle, 100)
    assert fail(throttle, 100, user="bob") == ADDRESS_LIMIT.burst
    assert fail(throttle, 100, address="10.0.0.2") == ADDRESS_LIMIT.burst


def test_guesses_from_many_addresses_are_bounded_by_user(throttle: LoginThrottle, clock: Clock) -> None:
    hour = 3600.0
    admitted = 0
    for second in range(int(hour)):
        admitted += fail(throttle, 2, address=f"10.{second // 65536}.{second // 256 % 256}.{second % 256}")
        clock.forward(1)
    assert admitted <= USER_LIMIT.burst + hour / USER_LIMIT.interval


def test_a_known_address_is_not_bounded_by_what_unknown_ones_do(throttle: LoginThrottle) -> None:
    throttle.record_success(throttle.admit_attempt("alice", "10.1.1.1"))
    for number in range(200):
        fail(throttle, 5, address=f"10.2.0.{number}")
    assert fail(throttle, 1, address="10.3.3.3") == 0
    assert fail(throttle, 100, address="10.1.1.1") == ADDRESS_LIMIT.burst


def test_a_device_has_a_bucket_of_its_own(throttle: LoginThrottle) -> None:
    for number in range(200):
        fail(throttle, 5, address=f"10.2.0.{number}")
    fail(throttle, 100, address="10.0.0.1")
    assert fail(throttle, 100, address="10.0.0.1", device="known") == DEVICE_LIMIT.burst


def test_the_right_password_does_not_count(throttle: LoginThrottle) -> None:
    for _ in range(100):
        throttle.record_success(throttle.admit_attempt("alice", "10.0.0.1"))
    assert fail(throttle, 100) == ADDRESS_LIMIT.burst


def test_an_ipv6_network_counts_as_one_address(throttle: LoginThrottle) -> None:
    assert sum(fail(throttle, 1, address=f"2001:db8::{number:x}") for number in range(50)) == ADDRESS_LIMIT.burst


def test_made_up_users_push_out_nothing(throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "MAX_BUCKETS", 100)
    fail(throttle, 100)
    for number in range(1000):
        throttle.admit_attempt(f"user{number}", "10.0.0.1", exists=False)
    for buckets in (throttle._unknown_user_address_buckets, throttle._unknown_user_buckets):
        assert len(buckets._levels) <= 100
    assert fail(throttle, 1) == 0


def test_memory_is_bounded(throttle: LoginThrottle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "MAX_BUCKETS", 100)
    monkeypatch.setattr(login_throttle, "MAX_KNOWN_USERS", 100)
    for number in range(1000):
        attempt = throttle.admit_attempt(f"user{number}", f"10.{number // 250}.0.{number % 250}")
        throttle.admit_attempt(f"user{number}", "10.0.0.1", device=f"{number}")
        throttle.record_success(attempt)
    for buckets in (throttle._address_buckets, throttle._user_buckets, throttle._device_buckets):
        assert len(buckets._levels) <= 100
    assert len(throttle._known_networks._users) <= 100


def test_the_known_addresses_of_one_user_push_out_none_of_others(throttle: LoginThrottle) -> None:
    throttle.record_success(throttle.admit_attempt("alice", "10.1.1.1"))
    for number in range(21_000):
        throttle.record_success(
            throttle.admit_attempt("bob", f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
        )
    assert len(throttle._known_networks._users["bob"]) == login_throttle.MAX_KNOWN_NETWORKS
    assert throttle._known_networks.has_network("bob", "10.0.82.7")
    for number in range(200):
        fail(throttle, 5, address=f"10.2.0.{number}")
    assert fail(throttle, 1, address="10.1.1.1") == 1


@pytest.mark.parametrize("exists", [True, False])
def test_limits_do_not_tell_which_users_exist(throttle: LoginThrottle, exists: bool) -> None:
    for number in range(USER_LIMIT.burst):
        throttle.admit_attempt("alice", f"10.2.0.{number}", exists=exists)
    with pytest.raises(TooManyRequests) as caught:
        throttle.admit_attempt("alice", "10.3.3.3", exists=exists)
    assert caught.value.retry_after == pytest.approx(USER_LIMIT.interval)


def test_the_loopback_counts_as_one_address(throttle: LoginThrottle) -> None:
    assert sum(fail(throttle, 1, address=f"127.0.{number}.1") for number in range(50)) == ADDRESS_LIMIT.burst


@pytest.mark.parametrize("address", ["::ffff:10.0.0.1", "::FFFF:0a00:0001", "::ffff:a00:1", "0:0:0:0:0:ffff:a00:1"])
def test_a_mapped_address_counts_as_its_ipv4_address(throttle: LoginThrottle, address: str) -> None:
    assert normalize_address(address) == "10.0.0.1"
    assert fail(throttle, 100) == ADDRESS_LIMIT.burst
    assert fail(throttle, 1, address=address) == 0


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1", "fe80::1%eth0", "::1", "unknown", ""])
def test_other_addresses_stay_as_they_are(address: str) -> None:
    assert normalize_address(address) == address


# -- device tokens


@pytest.fixture
def devices(clock: Clock) -> LoginDevices:
    return LoginDevices(lambda purpose: b"k" * 32, clock=clock.now, monotonic=lambda: clock.monotonic)


def test_a_device_token_names_one_user_and_stays_one_device(devices: LoginDevices) -> None:
    token = devices.issue_token("alice", MARK)
    device = devices.find_device("alice", MARK, token)
    assert device
    assert devices.find_device("bob", MARK, token) == ""
    assert devices.find_device("alice", MARK, devices.issue_token("alice", MARK, token)) == device
    assert devices.find_device("bob", MARK, devices.issue_token("bob", MARK, token)) != device


def test_a_device_token_ends(devices: LoginDevices, clock: Clock) -> None:
    token = devices.issue_token("alice", MARK)
    clock.forward((DEVICE_TOKEN_LIFETIME - timedelta(seconds=1)).total_seconds())
    assert devices.find_device("alice", MARK, token)
    clock.forward(1)
    assert devices.find_device("alice", MARK, token) == ""


@pytest.mark.parametrize("change", ["", "x", "{}x", "x{}", "{}.", "\u00e9{}", "{}{}"])
def test_what_the_server_did_not_sign_is_no_device(devices: LoginDevices, change: str) -> None:
    token = devices.issue_token("alice", MARK)
    assert devices.find_device("alice", MARK, change.format(token, token)) == ""
    device, issued, signature = token.split(".")
    assert devices.find_device("alice", MARK, f"{device}.{int(issued) + 1}.{signature}") == ""
    other = LoginDevices(lambda purpose: b"o" * 32, clock=Clock().now, monotonic=lambda: 0.0)
    assert other.find_device("alice", MARK, token) == ""


def test_a_device_token_ends_with_the_password(devices: LoginDevices) -> None:
    token = devices.issue_token("alice", MARK)
    assert devices.find_device("alice", "of another password", token) == ""


def test_a_user_gets_only_so_many_new_devices(devices: LoginDevices, clock: Clock) -> None:
    tokens = [devices.issue_token("alice", MARK) for _ in range(NEW_DEVICE_LIMIT.burst)]
    assert all(tokens)
    assert devices.issue_token("alice", MARK) == ""
    assert devices.issue_token("alice", MARK, tokens[0])
    assert devices.issue_token("bob", MARK)
    clock.forward(NEW_DEVICE_LIMIT.interval)
    assert devices.issue_token("alice", MARK)
