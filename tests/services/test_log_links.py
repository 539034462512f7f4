"""Signed links to one task's log."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from holdfast.core.errors import Forbidden
from holdfast.services.logs.links import LinkTarget, LogLinks

from .house import Clock

TRY = LinkTarget("j-1", 3, "a~role-12", 4)


def links(clock: Clock) -> LogLinks:
    return LogLinks(60, clock=clock.now)


def test_a_link_leads_back() -> None:
    made = links(Clock())
    link = made.create_link(TRY)
    assert made.resolve_link(link) == TRY
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", link)


@pytest.mark.parametrize(("seconds", "fine"), [(0, True), (59.9, True), (60, False), (10**6, False)])
def test_a_link_is_soon_over(seconds: float, fine: bool) -> None:
    clock = Clock()
    made = links(clock)
    link = made.create_link(TRY)
    clock.forward(seconds)
    if fine:
        assert made.resolve_link(link) == TRY
    else:
        with pytest.raises(Forbidden, match="expired"):
            made.resolve_link(link)


def test_no_change_of_a_link_goes_unnoticed() -> None:
    made = links(Clock())
    link = made.create_link(TRY)
    changes: list[Callable[[int], str]] = [
        lambda at: link[:at] + ("A" if link[at] != "A" else "B") + link[at + 1 :],
        lambda at: link[:at],
        lambda at: link[:at] + "." + link[at:],
    ]
    last = len(link) - 1  # its lowest bits mean nothing, so some changes of it are none
    for at in range(last):
        for change in changes:
            with pytest.raises(Forbidden, match="log link is not valid"):
                made.resolve_link(change(at))


def test_another_server_has_another_key() -> None:
    with pytest.raises(Forbidden):
        links(Clock()).resolve_link(links(Clock()).create_link(TRY))
