from holdfast.core.states import FINAL_STATES, JOB_STATE_TRANSITIONS, JobState, StateChange


def test_nothing_leaves_a_final_state() -> None:
    assert not [edge for edge in JOB_STATE_TRANSITIONS if edge[0] in FINAL_STATES]


def test_every_state_can_reach_a_final_one_and_be_cancelled() -> None:
    for state in set(JobState) - FINAL_STATES:
        assert JOB_STATE_TRANSITIONS[state, StateChange.CANCEL] is JobState.CANCELLED
        assert JOB_STATE_TRANSITIONS[state, StateChange.FAIL] is JobState.FAILED


def test_every_state_but_the_first_can_be_entered() -> None:
    assert {JobState.PENDING, *JOB_STATE_TRANSITIONS.values()} == set(JobState)
