"""Rate limits for wrong passwords; failed logins of one client do not lock out another.

Every attempt takes a token from a bucket before its password is checked; the correct password returns it. Clients that
can be distinguished have separate buckets:

- a device that has logged in as this user before (see login_devices),
- else the user at this address. Until that user has logged in from there, the attempt also takes a token from the
  user's bucket, shared by all unknown addresses, which limits guessing from many addresses.

docs/dev/decisions/0026 explains the reasons and limits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.core.messages import msg

from ..client_network import get_client_network
from ..errors import TooManyRequests

MAX_BUCKETS = 20_000  # of one kind; the least recently used are dropped first
MAX_KNOWN_USERS = 20_000
MAX_KNOWN_NETWORKS = 50  # of one user
MAX_NAME_LENGTH = 200
TOKEN_TOLERANCE = 1e-6  # of a token


@dataclass(frozen=True, slots=True)
class BucketLimit:
    burst: int  # attempts at once
    interval: float  # seconds until one more


DEVICE_LIMIT = BucketLimit(burst=5, interval=30.0)
ADDRESS_LIMIT = BucketLimit(burst=5, interval=30.0)  # of one user at one address
USER_LIMIT = BucketLimit(burst=50, interval=12.0)  # of one user, from all addresses where that user has not logged in


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """An admitted attempt. `client`: the key for fair ordering among the user's password checks."""

    user: str
    network: str
    client: str
    taken: tuple[tuple[TokenBuckets, str], ...]


class LoginThrottle:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._device_buckets = TokenBuckets(DEVICE_LIMIT, monotonic)
        self._address_buckets = TokenBuckets(ADDRESS_LIMIT, monotonic)
        self._user_buckets = TokenBuckets(USER_LIMIT, monotonic)
        # Separate, so that unknown names do not displace the buckets of real users. The limits are the same, because
        # they must not reveal which users exist.
        self._unknown_user_address_buckets = TokenBuckets(ADDRESS_LIMIT, monotonic)
        self._unknown_user_buckets = TokenBuckets(USER_LIMIT, monotonic)
        self._known_networks = KnownNetworks()

    def admit_attempt(self, user: str, address: str, *, device: str = "", exists: bool = True) -> LoginAttempt:
        """Count an attempt before its password is checked, so that concurrent ones all count. Raise TooManyRequests if
        no bucket of this client has a token. `device`: from LoginDevices. `exists`: whether the user exists."""
        user, network = user[:MAX_NAME_LENGTH], get_client_network(address)
        choices = self._list_bucket_sets(user, network, device, exists)
        for taken in choices:
            if all(buckets.has_token(key) for buckets, key in taken):
                for buckets, key in taken:
                    buckets.take_token(key)
                return LoginAttempt(user, network, taken[0][1], taken)
        raise _build_too_many_attempts_error(
            min(max(buckets.get_wait_time(key) for buckets, key in taken) for taken in choices)
        )

    def record_success(self, attempt: LoginAttempt) -> None:
        """Return the tokens of a successful attempt and remember the address for this user."""
        self._return_tokens(attempt)
        self._known_networks.add_network(attempt.user, attempt.network)

    @contextmanager
    def guard_password_check(self, attempt: LoginAttempt) -> Iterator[None]:
        """Return the tokens if the password check inside the block is rejected."""
        try:
            yield
        except TooManyRequests:
            self._return_tokens(attempt)
            raise

    def _return_tokens(self, attempt: LoginAttempt) -> None:
        for buckets, key in attempt.taken:
            buckets.return_token(key)

    def _list_bucket_sets(
        self, user: str, network: str, device: str, exists: bool
    ) -> list[tuple[tuple[TokenBuckets, str], ...]]:
        """Return the bucket sets; an attempt needs a token of every bucket in one set."""
        pair = f"{network} {user}"
        if not exists:
            return [((self._unknown_user_address_buckets, pair), (self._unknown_user_buckets, user))]
        is_known = self._known_networks.has_network(user, network)
        at_address = (
            ((self._address_buckets, pair),)
            if is_known
            else ((self._address_buckets, pair), (self._user_buckets, user))
        )
        return [((self._device_buckets, f"{device} {user}"),), at_address] if device else [at_address]


class KnownNetworks:
    """Networks that users have logged in from, in a separate table for each user, so that users do not displace each
    other's; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def has_network(self, user: str, network: str) -> bool:
        return network in self._users.get(user, ())

    def add_network(self, user: str, network: str) -> None:
        networks = self._users.setdefault(user, OrderedDict())
        networks[network] = None
        networks.move_to_end(network)
        self._users.move_to_end(user)
        if len(networks) > MAX_KNOWN_NETWORKS:
            networks.popitem(last=False)
        if len(self._users) > MAX_KNOWN_USERS:
            self._users.popitem(last=False)


class TokenBuckets:
    """Token buckets by key."""

    def __init__(self, limit: BucketLimit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and the time of that count

    def has_token(self, key: str) -> bool:
        return self._get_level(key) >= 1 - TOKEN_TOLERANCE

    def get_wait_time(self, key: str) -> float:
        """Return the seconds until there is a token."""
        return max(0.0, 1 - self._get_level(key)) * self._limit.interval

    def take_token(self, key: str) -> None:
        self._set_level(key, self._get_level(key) - 1)

    def return_token(self, key: str) -> None:
        self._set_level(key, self._get_level(key) + 1)

    def _get_level(self, key: str) -> float:
        level, at = self._levels.get(key, (float(self._limit.burst), self._monotonic()))
        return min(self._limit.burst, level + (self._monotonic() - at) / self._limit.interval)

    def _set_level(self, key: str, level: float) -> None:
        self._levels.pop(key, None)
        if level < self._limit.burst:
            self._levels[key] = level, self._monotonic()
        while len(self._levels) > MAX_BUCKETS:
            self._levels.popitem(last=False)


def _build_too_many_attempts_error(wait: float) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many failed logins"),
        retry_after=wait,
        hint=msg(
            "Wait {seconds} s and try again, or use a browser that you have logged in with before.",
            seconds=max(1, round(wait)),
        ),
    )
