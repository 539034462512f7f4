from holdfast.core.states import FINAL, TRANSITIONS, Change, JobState


def test_nothing_leaves_a_final_state() -> None:
    assert not [edge for edge in TRANSITIONS if edge[0] in FINAL]


def test_every_state_can_reach_a_final_one_and_be_cancelled() -> None:
    for state in set(JobState) - FINAL:
        assert TRANSITIONS[state, Change.CANCEL] is JobState.CANCELLED
        assert TRANSITIONS[state, Change.FAIL] is JobState.FAILED


def test_every_state_but_the_first_can_be_entered() -> None:
    assert {JobState.PENDING, *TRANSITIONS.values()} == set(JobState)
