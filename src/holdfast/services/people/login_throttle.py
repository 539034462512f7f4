"""Limits on wrong passwords, such that failed logins of one client do not lock out another.

Every try takes a token from a bucket before its password is checked; the right password gives it back. Clients that can
be told apart have buckets of their own:

- a device that logged in as this user before (see login_devices),
- else the user at this address. Until that user has logged in from there, the try also takes a token of the user's,
  which all unknown addresses share: it bounds how often a password is guessed from many addresses.

docs/dev/decisions/0026 tells why, and what this cannot do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.core.messages import msg

from ..client_network import client_network
from ..refusals import TooManyRequests

MAX_BUCKETS = 20_000  # of one kind; the least recently used go first
MAX_KNOWN_USERS = 20_000
MAX_KNOWN_NETWORKS = 50  # of one user
MAX_NAME_LENGTH = 200
ROUNDING = 1e-6  # of a token


@dataclass(frozen=True, slots=True)
class Limit:
    burst: int  # tries at once
    interval: float  # seconds until one more


DEVICE = Limit(burst=5, interval=30.0)
ADDRESS = Limit(burst=5, interval=30.0)  # of one user at one address
USER = Limit(burst=50, interval=12.0)  # of one user, from all addresses where that user has not logged in


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A try that was admitted. `client`: whose turn it is among those of the user when passwords are checked."""

    user: str
    network: str
    client: str
    taken: tuple[tuple[Buckets, str], ...]


class LoginThrottle:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._devices = Buckets(DEVICE, monotonic)
        self._addresses = Buckets(ADDRESS, monotonic)
        self._users = Buckets(USER, monotonic)
        # Apart, so that made-up names do not push out what is known of real users. The limits are the same: they must
        # not tell which users exist.
        self._made_up_addresses = Buckets(ADDRESS, monotonic)
        self._made_up_users = Buckets(USER, monotonic)
        self._known = KnownNetworks()

    def admit(self, user: str, address: str, *, device: str = "", exists: bool = True) -> LoginAttempt:
        """Count a try before its password is checked, so that many at once count as many. TooManyRequests when no
        bucket of this client has a token. `device`: as LoginDevices found it. `exists`: whether the user does."""
        user, network = user[:MAX_NAME_LENGTH], client_network(address)
        choices = self._choices(user, network, device, exists)
        for taken in choices:
            if all(buckets.has_token(key) for buckets, key in taken):
                for buckets, key in taken:
                    buckets.take_token(key)
                return LoginAttempt(user, network, taken[0][1], taken)
        raise _too_many(min(max(buckets.wait_time(key) for buckets, key in taken) for taken in choices))

    def succeeded(self, attempt: LoginAttempt) -> None:
        """The password was right: the try does not count, and the address is known for this user from now on."""
        self._withdraw(attempt)
        self._known.add(attempt.user, attempt.network)

    @contextmanager
    def checking(self, attempt: LoginAttempt) -> Iterator[None]:
        """Around the check of the password: the try does not count when the check is refused."""
        try:
            yield
        except TooManyRequests:
            self._withdraw(attempt)
            raise

    def _withdraw(self, attempt: LoginAttempt) -> None:
        for buckets, key in attempt.taken:
            buckets.return_token(key)

    def _choices(self, user: str, network: str, device: str, exists: bool) -> list[tuple[tuple[Buckets, str], ...]]:
        """Sets of buckets, of which a try needs one whole set."""
        pair = f"{network} {user}"
        if not exists:
            return [((self._made_up_addresses, pair), (self._made_up_users, user))]
        is_known = self._known.has(user, network)
        at_address = ((self._addresses, pair),) if is_known else ((self._addresses, pair), (self._users, user))
        return [((self._devices, f"{device} {user}"),), at_address] if device else [at_address]


class KnownNetworks:
    """Networks that users have logged in from. Each user has a table of their own, so that nobody pushes out what is
    known of others; the least recently used go first."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def has(self, user: str, network: str) -> bool:
        return network in self._users.get(user, ())

    def add(self, user: str, network: str) -> None:
        networks = self._users.setdefault(user, OrderedDict())
        networks[network] = None
        networks.move_to_end(network)
        self._users.move_to_end(user)
        if len(networks) > MAX_KNOWN_NETWORKS:
            networks.popitem(last=False)
        if len(self._users) > MAX_KNOWN_USERS:
            self._users.popitem(last=False)


class Buckets:
    """Token buckets by key."""

    def __init__(self, limit: Limit, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._now = monotonic
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when there were so many

    def has_token(self, key: str) -> bool:
        return self._level(key) >= 1 - ROUNDING

    def wait_time(self, key: str) -> float:
        """Seconds until there is a token."""
        return max(0.0, 1 - self._level(key)) * self._limit.interval

    def take_token(self, key: str) -> None:
        self._set(key, self._level(key) - 1)

    def return_token(self, key: str) -> None:
        self._set(key, self._level(key) + 1)

    def _level(self, key: str) -> float:
        level, at = self._levels.get(key, (float(self._limit.burst), self._now()))
        return min(self._limit.burst, level + (self._now() - at) / self._limit.interval)

    def _set(self, key: str, level: float) -> None:
        self._levels.pop(key, None)
        if level < self._limit.burst:
            self._levels[key] = level, self._now()
        while len(self._levels) > MAX_BUCKETS:
            self._levels.popitem(last=False)


def _too_many(wait: float) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many failed logins"),
        retry_after=wait,
        hint=msg(
            "Wait {x1} s and try again, or use a browser that you have logged in with before.", x1=max(1, round(wait))
        ),
    )
