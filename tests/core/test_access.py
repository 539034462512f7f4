from __future__ import annotations

import pytest

from holdfast.core.access import Actor, may_act, refuse_act

MEMBER, CHIEF = {"lab": False}, {"lab": True}


@pytest.mark.parametrize(
    ("actor", "members", "owners"),
    [
        (Actor(name="ann", groups=MEMBER), True, True),
        (Actor(name="bob", groups=MEMBER), True, False),
        (Actor(name="bob", groups=CHIEF), True, True),
        (Actor(name="bob", admin=True), True, True),
        (Actor(name="ann", groups={"shop": True}), False, False),  # no longer a member
        (Actor(name="bob", groups={"shop": True}, reads_all=True), False, False),
    ],
)
def test_who_acts_on_a_job_of_ann_in_lab(actor: Actor, members: bool, owners: bool) -> None:
    strict = Actor(name=actor.name, admin=actor.admin, groups=actor.groups, own_only=True)
    assert (may_act(actor, "lab", "ann"), may_act(strict, "lab", "ann")) == (members, owners)


def test_the_refusal_says_who_may() -> None:
    assert "Only members of lab" in refuse_act("lab", "ann", member=False).message
    assert "only ann and admins of lab" in refuse_act("lab", "ann", member=True).message
