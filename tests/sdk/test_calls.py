from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from holdfast.sdk import ApiError, CannotConnect, JobState, UnexpectedReply

from .conftest import Ask
from .scripted import Asked, Drop, Say, ScriptedServer, a_job, a_task, error_say, json_say


def test_sends_the_token_and_reads_the_answer(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1", json_say(a_job(tasks=[a_task()])))
    assert ask("get_job", "job-1").tasks[0].task == "main-0"
    assert server.asked[0].headers["authorization"] == "Bearer hf_a_secret"


def test_odd_names_stay_one_part_of_the_path(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/a%2Fb%3Fc%20%C3%A9", json_say(a_job()))
    assert ask("get_job", "a/b?c é").id == "job-1"
    for name in ("", ".", "..", "../users/ann"):
        with pytest.raises(ApiError, match="not found"):
            ask("get_job", name)
    assert len(server.asked) == 1


def test_filters_become_parameters(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs", json_say({"items": [], "next": None}))
    ask("list_jobs", groups=["a", "b"], states=[JobState.FAILED, "Held"], mine=True, text="x y", limit=5)
    expected = {"group": "a,b", "state": "Failed,Held", "mine": "true", "text": "x y", "limit": "5"}
    assert server.asked[0].params == expected


@pytest.mark.parametrize(
    ("name", "args"), [("submit_job", ("name: x",)), ("plan_job", ("name: x",)), ("list_jobs", ())]
)
def test_a_misspelled_option_is_refused(server: ScriptedServer, ask: Ask, name: str, args: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="'grop'"):
        ask(name, *args, grop="a")
    assert not server.asked


def test_refusals_carry_all_that_the_server_said(server: ScriptedServer, ask: Ask) -> None:
    problem = {"field": "roles.a", "message": "is required", "hint": "add it", "line": 3}
    server.on("POST", "/jobs", error_say("invalid_job", 400, "bad", hint="h", field="f", problems=[problem]))
    with pytest.raises(ApiError) as caught:
        ask("submit_job", "name: x")
    error = caught.value
    assert (error.code, error.status, error.message, error.hint, error.field) == ("invalid_job", 400, "bad", "h", "f")
    assert (error.request_id, error.problems[0].line) == ("r1", 3)
    assert error.as_json()["error"]["problems"] == [problem]


def test_a_submission_cut_off_is_sent_again_with_the_same_key(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/jobs", Drop(), Say(b'{"id', cut=True), json_say(a_job(), 201))
    assert ask("submit_job", {"name": "x", "command": "true"}).id == "job-1"
    keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert (len(server.asked), len(keys)) == (3, 1)
    assert json.loads(server.asked[2].body) == {"name": "x", "command": "true"}
    ask("submit_job", "name: x")
    assert server.asked[3].headers["idempotency-key"] not in keys


def test_a_rerun_cut_off_is_sent_again_with_the_same_key(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/jobs/job-1/rerun", Drop(), json_say(a_job(id="job-2"), 201))
    assert ask("rerun_job", "job-1").id == "job-2"
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1


def test_what_must_not_happen_twice_is_not_sent_twice(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/users", Drop())
    with pytest.raises(CannotConnect) as caught:
        ask("add_user", "ann", "pw", client={"retry_timeout": 30})
    assert caught.value.lost
    assert "may have been processed" in str(caught.value.hint)
    assert len(server.asked) == 1


def test_no_server_is_an_error_at_once_with_what_to_do(server: ScriptedServer, ask: Ask) -> None:
    server.stop()
    with pytest.raises(CannotConnect) as caught:
        ask("list_jobs")
    assert "connection refused" in caught.value.message
    assert "holdfast up" in str(caught.value.hint)
    server.start()


def test_a_patient_client_waits_for_a_busy_server(server: ScriptedServer, ask: Ask) -> None:
    server.on(
        "GET", "/me", error_say("unavailable", 503), error_say("too_many_requests", 429), json_say({"name": "ann"})
    )
    assert ask("get_current_user", client={"retry_timeout": 30}).name == "ann"
    server.on("GET", "/me", error_say("unavailable", 503))
    with pytest.raises(ApiError, match="no"):
        ask("get_current_user")


def test_something_else_at_the_address_is_recognised(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/me", Say(b"<html>hello</html>"))
    with pytest.raises(UnexpectedReply, match="not JSON"):
        ask("get_current_user")
    server.on("GET", "/me", Say(b"<html>oops</html>", 502))
    with pytest.raises(UnexpectedReply, match="HTTP 502"):
        ask("get_current_user")


def test_redirects_are_not_followed(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/me", Say(status=302, headers={"Location": f"{server.url}/api/v1/elsewhere"}))
    with pytest.raises(UnexpectedReply, match="elsewhere"):
        ask("get_current_user")
    assert len(server.asked) == 1


def test_waits_until_the_end(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/wait", json_say(a_job()), json_say(a_job()), json_say(a_job(state="Failed")))
    assert ask("wait_for_job", "job-1").state is JobState.FAILED
    assert len(server.asked) == 3


def test_a_hold_ends_the_wait_unless_asked_to_go_on(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/wait", json_say(a_job(state="Held")))
    assert ask("wait_for_job", "job-1").state is JobState.HELD
    server.on("GET", "/jobs/job-1/wait", json_say(a_job(state="Held")), json_say(a_job(state="Failed")))
    assert ask("wait_for_job", "job-1", through_hold=True).state is JobState.FAILED


def test_a_wait_with_a_timeout_returns_the_job_as_it_is(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/wait", json_say(a_job()))
    assert ask("wait_for_job", "job-1", timeout=0).state is JobState.RUNNING


def test_a_wait_outlives_a_restart(server: ScriptedServer, ask: Ask) -> None:
    """The connection breaks and nothing listens for a while: the next call brings the server back."""

    def go_down(asked: Asked) -> Drop:
        server.on("GET", "/jobs/job-1/wait", json_say(a_job(state="Succeeded")))
        server.restart_soon()
        return Drop()

    server.on("GET", "/jobs/job-1/wait", go_down)
    assert ask("wait_for_job", "job-1").state is JobState.SUCCEEDED


def test_lists_every_page(server: ScriptedServer, ask: Ask) -> None:
    def page(asked: Asked) -> Say:
        at = int(asked.params.get("cursor", "0"))
        return json_say({"items": [a_job(id=f"job-{at}")], "next": str(at + 1) if at < 2 else None})

    server.on("GET", "/jobs", page)
    assert [job.id for job in ask("iter_jobs", mine=True)] == ["job-0", "job-1", "job-2"]
    assert all(asked.params["mine"] == "true" for asked in server.asked)
    assert [job.id for job in ask("iter_jobs", limit=2)] == ["job-0", "job-1"]


def test_follows_events_to_the_last(server: ScriptedServer, ask: Ask) -> None:
    """The job ends between two looks: the event that says so is still given."""
    states = iter(["Running", "Succeeded"])
    ended: list[bool] = []

    def events(asked: Asked) -> Say:
        after = int(asked.params.get("after", "0"))
        known = [1, 2] + ([3] if ended else [])
        items = [{"seq": n, "at": "2026-01-01T00:00:00Z", "kind": "k"} for n in known if n > after]
        return json_say({"items": items, "next": None})

    def wait(asked: Asked) -> Say:
        state = next(states)
        ended.extend([True] if state == "Succeeded" else [])
        return json_say(a_job(state=state))

    server.on("GET", "/jobs/job-1/events", events)
    server.on("GET", "/jobs/job-1/wait", wait)
    assert [event.seq for event in ask("follow_events", "job-1")] == [1, 2, 3]


def test_uploads_a_file_piece_by_piece(server: ScriptedServer, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "image.tar"
    file.write_bytes(bytes(range(256)) * 4096)
    server.on("POST", "/images", json_say({"name": "base"}, 201))
    pieces: list[int] = []
    assert ask("import_image", "base", file, progress=pieces.append).name == "base"
    assert server.asked[0].body == file.read_bytes()
    assert server.asked[0].params == {"name": "base"}
    assert sum(pieces) == file.stat().st_size
    assert len(pieces) > 1


def test_changing_a_group_can_unset_its_time_limit(server: ScriptedServer, ask: Ask) -> None:
    server.on("PATCH", "/groups/g", json_say({"name": "g"}))
    ask("change_group", "g", description="d")
    ask("change_group", "g", time_limit=None)
    assert [json.loads(asked.body) for asked in server.asked] == [{"description": "d"}, {"time_limit": None}]


def test_the_token_is_in_no_log(server: ScriptedServer, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    server.on("GET", "/me", json_say({"name": "ann"}))
    with caplog.at_level(logging.DEBUG):
        ask("get_current_user")
    assert "hf_a_secret" not in caplog.text
    assert "127.0.0.1" in caplog.text
