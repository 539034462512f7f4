from __future__ import annotations

import pytest

from holdfast.core.access import Actor, build_action_forbidden_error, can_act_on, can_rerun

MEMBER, CHIEF = {"lab": False}, {"lab": True}


@pytest.mark.parametrize(
    ("actor", "members", "owners"),
    [
        (Actor(name="ann", groups=MEMBER), True, True),
        (Actor(name="bob", groups=MEMBER), True, False),
        (Actor(name="bob", groups=CHIEF), True, True),
        (Actor(name="bob", admin=True), True, True),
        (Actor(name="ann", groups={"shop": True}), False, False),  # no longer a member
        (Actor(name="bob", groups={"shop": True}, can_read_all_jobs=True), False, False),
    ],
)
def test_who_acts_on_a_job_of_ann_in_lab(actor: Actor, members: bool, owners: bool) -> None:
    strict = Actor(name=actor.name, admin=actor.admin, groups=actor.groups, own_only=True)
    assert (can_act_on(actor, "lab", "ann"), can_act_on(strict, "lab", "ann")) == (members, owners)


@pytest.mark.parametrize(
    ("actor", "plain", "secret"),
    [
        (Actor(name="ann", groups=MEMBER), True, True),
        (Actor(name="bob", groups=CHIEF), True, False),
        (Actor(name="bob", admin=True), True, True),
        (Actor(name="ann", groups={"shop": True}), False, False),
    ],
)
def test_secrets_of_ann_run_again_for_ann_alone(actor: Actor, plain: bool, secret: bool) -> None:
    found = [can_rerun(actor, "lab", "ann", secrets=secrets) for secrets in (False, True)]
    assert found == [plain, secret]


def test_the_refusal_says_who_may() -> None:
    assert "Only members of lab" in build_action_forbidden_error("lab", "ann", member=False).message
    assert "only ann and admins of lab" in build_action_forbidden_error("lab", "ann", member=True).message
