"""OpenPAI's published JavaScript SDK, unmodified, against a real server: what it is told is what our own API says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks
from tests.e2e.server import Server

from .node import PACKAGE, VERSION, run_node, run_script, sdk_folder
from .place import PASSWORD, place, without_runtime
from .swagger import TOLD, described, mistakes

pytestmark = pytest.mark.release

Told = dict[str, Any]
Teller = Callable[[str], Told]

BAD_TOKEN = "Your token is invalid."
NOT_ADMIN = "Non-admin is not allow to do this operation."
NOT_FOR_APPLICATIONS = "Applications are not allowed to do this operation."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sdk_folder()  # skips before a server is started
    folder = tmp_path_factory.mktemp("sdk")
    with place(folder / "home", HOLDFAST_ACCESS_READING="anyone") as running:
        _add_storage(running, folder / "corpus")
        yield running


def _add_storage(server: Server, folder: Path) -> None:
    """For ann, by way of the group speech."""
    folder.mkdir()
    (folder / "hello.txt").write_text("hello from a storage\n")
    with server.client() as admin:
        admin.put("/groups/speech/members/ann", json={}).raise_for_status()
        dataset = {"name": "corpus", "path": str(folder), "groups": ["speech"]}
        admin.post("/datasets", json=dataset).raise_for_status()


@pytest.fixture(scope="module")
def told(server: Server) -> Teller:
    """What a script tells; each is run once."""
    return cache(lambda script: dict(run_script(script, server.url, password=PASSWORD)))


def ours(server: Server, path: str, **query: str) -> Any:
    return server.get(path, **query).raise_for_status().json()


def refused(found: Told, status: int, code: str, message: str | None = None) -> bool:
    assert (found["status"], found["code"]) == (status, code), found
    assert message is None or found["message"] == message
    return True


def test_the_package_is_the_published_one() -> None:
    package = json.loads((sdk_folder() / PACKAGE / "package.json").read_text())
    assert (package["name"], package["version"]) == (PACKAGE, VERSION)


def test_login_and_logout(told: Teller) -> None:
    found = told("login")
    assert found["info"]["authnMethod"] == "basic"
    assert found["info"]["version"].startswith("v1.8")
    assert (found["login"]["user"], found["login"]["admin"]) == ("ann", False)
    assert (found["boss"]["user"], found["boss"]["admin"]) == ("boss", True)
    assert isinstance(found["jobs"], list)
    assert found["logout"] == {"message": "Logout successfully"}
    assert refused(found["loggedOut"], 401, "UnauthorizedUserError", BAD_TOKEN)
    assert refused(found["strange"], 401, "UnauthorizedUserError", BAD_TOKEN)
    assert refused(found["wrongPassword"], 400, "IncorrectPasswordError", "Password is incorrect.")
    assert refused(found["nobody"], 400, "NoUserError", "User nobody is not found.")


@pytest.fixture(scope="module")
def journey(told: Teller) -> Told:
    return told("jobs")


def test_a_job_is_submitted_and_ends(server: Server, journey: Told) -> None:
    assert journey["submitted"] == {"status": 202, "message": "Update job journey for user ann successfully."}
    native = ours(server, "/jobs/journey")
    status = journey["job"]["jobStatus"]
    assert (native["state"], native["user"], native["exit_code"]) == ("Failed", "ann", 7)
    assert (status["state"], status["subState"], status["username"]) == ("FAILED", "Completed", "ann")
    assert status["appExitCode"] == status["appExitSpec"]["code"] == 255
    assert status["appExitMessages"]["runtime"]["originUserExitCode"] == 7
    assert status["appExitTriggerMessage"] == "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    assert journey["attempt"] == journey["job"]


def test_a_task_is_told_in_full(journey: Told) -> None:
    (status,) = journey["job"]["taskRoles"]["worker"]["taskStatuses"]
    task = journey["task"]
    assert (task["taskIndex"], task["taskState"], len(task["attempts"])) == (0, "FAILED", 1)
    assert task["taskUid"] == status["taskUid"]
    assert task["attempts"][0]["containerId"] == status["containerId"]
    assert len(status["containerPorts"]["web"].split(",")) == 2
    assert {"web", "ssh", "http"} == set(status["containerPorts"])


def test_config_comes_back_without_its_secrets(journey: Told) -> None:
    config = journey["config"]
    assert (config["name"], config["parameters"], config["secrets"]) == ("journey", {"city": "Bern"}, "******")
    assert config["taskRoles"]["worker"]["commands"][0] == "echo from <% $parameters.city %>"


def test_logs_are_those_of_our_own_api(server: Server, journey: Told) -> None:
    assert {"stdout", "stderr", "all"} <= set(journey["names"])
    assert journey["stdout"]["text"] == journey["tail"]["text"] == "from Bern\n"
    assert (journey["stdout"]["status"], journey["tail"]["status"]) == (200, 206)
    assert without_runtime(journey["stderr"]["text"]) == "to stderr\n"
    assert journey["all"]["text"] == server.get("/jobs/journey/log").text


def test_events_are_told(server: Server, journey: Told) -> None:
    events, native = journey["events"], ours(server, "/jobs/journey/events")["items"]
    assert events["totalCount"] == len(events["data"]) > 0
    assert {event["type"] for event in events["data"]} <= {"Normal", "Warning"}
    assert len(events["data"]) <= len(native)
    assert all(event["type"] == "Warning" for event in journey["warnings"]["data"])


def test_what_a_submission_is_refused_with(journey: Told) -> None:
    assert refused(journey["twice"], 409, "ConflictJobError", "Job ann~journey already exists.")
    assert refused(journey["wrong"], 400, "InvalidProtocolError")
    assert "jobRetryCount" in journey["wrong"]["message"]
    said = "User ann is not allowed to do operation in vision"
    assert refused(journey["foreign"], 403, "ForbiddenUserError", said)


def test_what_is_not_there_is_said_to_be_missing(journey: Told) -> None:
    assert refused(journey["missing"], 404, "NoJobError", "Job ann~never is not found.")
    assert journey["missing"]["type"] == "NoJobError"
    assert journey["missingConfig"]["status"] == 404  # the SDK does not read the body of this one
    assert refused(journey["missingAttempt"], 404, "NoJobError")
    assert journey["missingLog"]["status"] == 404


def test_lists_are_filtered_ordered_and_paged(server: Server, told: Teller) -> None:
    found = told("listing")
    in_order = ["list-bad", "list-good", "list-prod"]
    assert found["byName"] == found["ofBoth"] == found["here"] == in_order
    assert found["newestFirst"] == ["list-prod", "list-bad", "list-good"]
    assert found["ofBob"] == found["prod"] == found["tagged"] == ["list-prod"]
    assert found["failed"] == ["list-bad"]
    assert found["ended"] == found["untagged"] == ["list-bad", "list-good"]
    assert found["elsewhere"] == []
    assert found["second"] == ["list-good"]
    assert found["counted"]["totalCount"] == found["onlyCount"]["totalCount"] == 3
    assert [job["name"] for job in found["counted"]["data"]] == ["list-prod"]
    assert found["onlyCount"]["data"] == []
    native = {job["name"]: job["state"].upper() for job in ours(server, "/jobs", text="list-")["items"]}
    assert {job["name"]: job["state"] for job in found["all"]} == native


def test_only_the_owner_stops_a_job(server: Server, told: Teller) -> None:
    found = told("stopping")
    (task,) = found["running"]["taskRoles"]["worker"]["taskStatuses"]
    assert task["taskState"] == "RUNNING"
    assert task["containerIp"]
    assert task["containerPorts"]["web"].isdigit()
    assert found["foreign"]["status"] == 403
    assert found["stopped"]["message"] == "Execute job ann~endless successfully."
    assert found["end"]["jobStatus"]["state"] == found["afterwards"] == "STOPPED"
    assert found["end"]["jobStatus"]["appExitCode"] == -210
    assert found["end"]["jobStatus"]["executionType"] == "STOP"
    assert found["strange"]["status"] == 400
    assert refused(found["missing"], 404, "NoJobError")
    assert ours(server, "/jobs/endless")["state"] == "Cancelled"


def test_tags(told: Teller) -> None:
    found = told("tags")
    assert found["added"] == {"status": 200, "message": "Add tag first for job ann~tagged successfully."}
    assert sorted(found["both"]) == ["first", "second"]
    assert found["deleted"]["message"] == "Delete tag first from job ann~tagged successfully."
    assert found["left"] == ["second"]
    assert refused(found["missing"], 404, "NoTagError")
    assert found["foreign"]["status"] == 403
    assert found["comma"]["status"] == 400


def test_every_attempt_of_a_retried_job_can_be_read(server: Server, told: Teller) -> None:
    found = told("history")
    status = found["job"]["jobStatus"]
    assert (status["state"], status["retries"], status["attemptId"]) == ("SUCCEEDED", 2, 2)
    assert status["retryDetails"] == {"user": 2, "platform": 0, "resource": 0}
    assert found["first"]["jobStatus"]["attemptState"] == "FAILED"
    assert found["outputs"] == ["try 0\n", "try 1\n", "try 2\n"]
    assert found["health"] == "ok"
    assert sorted(attempt["attemptIndex"] for attempt in found["attempts"]) == [0, 1, 2]
    assert [attempt["attemptIndex"] for attempt in found["attempts"] if attempt["isLatest"]] == [2]
    assert (found["second"]["attemptIndex"], found["second"]["state"]) == (1, "FAILED")
    assert refused(found["missing"], 404, "NoJobError")
    assert len(ours(server, "/jobs/stubborn/attempts")["items"]) == 3


def test_virtual_clusters_and_storages(server: Server, told: Teller) -> None:
    found = told("places")
    _check_clusters(found)
    _check_storages(found)
    native = [node["name"] for node in ours(server, "/capacity")["nodes"]]
    assert [node["metadata"]["name"] for node in found["nodes"]["items"]] == native
    assert found["pods"]["items"] == []
    assert refused(found["notForAnn"], 403, "ForbiddenUserError", NOT_ADMIN)


def _check_clusters(found: Told) -> None:
    assert found["clusters"]["default"].keys() == found["cluster"].keys()
    assert found["cluster"]["resourcesTotal"]["memory"] > 0
    assert refused(found["noCluster"], 404, "NoVirtualClusterError")
    assert found["skus"]["cpu-1"] == {"cpu": 1, "memory": 2048, "gpu": 0}


def _check_storages(found: Told) -> None:
    assert [each["name"] for each in found["storages"]["storages"]] == ["corpus"]
    assert found["cached"] == found["storages"]
    assert found["storage"]["name"] == "corpus"
    assert found["noStorage"]["status"] == 404
    assert refused(found["notGranted"], 403, "ForbiddenUserError")
    assert refused(found["notMounted"], 404, "NoStorageError", "Storage corpus is not found.")
    assert found["job"]["jobStatus"]["state"] == "SUCCEEDED"
    assert found["read"] == "hello from a storage\n"


def test_tokens(server: Server, told: Teller) -> None:
    found = told("tokens")
    assert found["made"]["application"] is True
    assert len(found["mine"]) == 1  # the text itself is kept nowhere
    assert found["state"] == "SUCCEEDED"
    assert found["basic"] == 200
    for name in ("noTokens", "noUsers"):
        assert refused(found[name], 403, "ForbiddenUserError", NOT_FOR_APPLICATIONS)
    assert found["foreign"]["status"] == 403
    assert found["deleted"] == found["deletedLogin"] == {"message": "revoke successfully"}
    for name in ("afterwards", "loggedOut"):
        assert refused(found[name], 401, "UnauthorizedUserError", BAD_TOKEN)
    assert set(found["listed"]["tokens"]) - set(found["left"]["tokens"]) == set(found["mine"])
    native = {f"hf_{token['id']}" for token in ours(server, "/tokens", user="ann")["items"]}
    assert set(found["left"]["tokens"]) <= native
    assert not set(found["mine"]) & native


def test_users(server: Server, told: Teller) -> None:
    found = told("users")
    assert found["created"] == {"message": "User is created successfully"}
    assert refused(found["twice"], 409, "ConflictUserError")
    assert (found["fresh"]["email"], found["fresh"]["admin"]) == ("eve@example.org", False)
    assert set(found["fresh"]["virtualCluster"]) == {"default", "vision"}
    assert found["patched"]["email"] == "e@example.org"
    assert found["patched"]["extension"] == {**found["fresh"]["extension"], "colour": "red", "size": 3}
    assert set(found["afterAdding"]) - set(found["afterRemoving"]) == {"speech"}
    assert found["last"]["email"] == "eve@home.example"
    assert set(found["last"]["grouplist"]) == {"default", "speech"}
    assert {"boss", "ann", "bob", "eve"} <= {user["username"] for user in found["everyone"]}
    assert refused(found["notAdmin"], 403, "ForbiddenUserError", NOT_ADMIN)
    assert refused(found["notMe"], 403, "ForbiddenUserError", "Can't update other user's data")
    assert refused(found["noUser"], 400, "NoUserError")
    assert refused(found["noAdminGone"], 403, "RemoveAdminError")
    assert found["deleted"] == {"message": "user is removed successfully"}
    assert refused(found["gone"], 400, "NoUserError")
    assert server.get("/users/eve").status_code == 404
    dora = ours(server, "/users/dora")
    assert (dora["email"], set(dora["groups"]), dora["admin"]) == ("dora@example.org", {"default", "vision"}, False)


def test_groups(server: Server, told: Teller) -> None:
    found = told("groups")
    assert (found["fresh"]["groupname"], found["fresh"]["description"]) == ("robots", "arms and legs")
    assert found["fresh"]["extension"]["colour"] == "green"
    assert (found["changed"]["description"], found["changed"]["extension"]["colour"]) == ("arms", "blue")
    assert [member["username"] for member in found["members"]] == ["ann"]
    assert {"default", "vision", "robots"} <= {group["groupname"] for group in found["all"]}
    assert refused(found["notAdmin"], 403, "ForbiddenUserError", NOT_ADMIN)
    assert refused(found["noGroup"], 400, "NoGroupError")
    assert refused(found["gone"], 400, "NoGroupError")
    assert server.get("/groups/robots").status_code == 404
    painters = ours(server, "/groups/painters")
    assert (painters["description"], list(painters["members"])) == ("they stay", ["ann"])


@pytest.fixture(scope="module")
def first(told: Teller) -> Told:
    return told("first")


def test_the_first_client_submits_forms_and_reads_without_login(server: Server, first: Told) -> None:
    found, web = first, first["running"]["taskRoles"]["main"]["taskStatuses"][0]
    assert found["info"]["name"] == "PAI RESTful API"
    assert found["authn"]["loginURI"] == "/api/v1/authn/basic/login"
    assert found["submitted"]["message"] == "update job by-form successfully"
    assert found["job"]["jobStatus"]["state"] == "SUCCEEDED"
    assert {"by-form", "form-endless"} <= set(found["listed"])
    assert {"by-form", "form-endless"} <= {job["name"] for job in found["all"]}
    assert found["byFramework"]["name"] == found["job"]["name"] == found["config"]["jobName"]
    assert web["containerIp"]
    assert web["containerPorts"]["web"].isdigit()
    assert found["executed"]["message"] == "execute job form-endless successfully"
    assert found["stopped"]["jobStatus"]["state"] == "STOPPED"
    assert without_runtime(server.get("/jobs/by-form/log").text) == "a b&c\n"


def test_the_first_client_is_refused_in_words_it_knows(first: Told) -> None:
    assert refused(first["twice"], 409, "ConflictJobError", "Job name by-form already exists")
    assert refused(first["wrong"], 400, "InvalidParametersError")
    assert refused(first["missing"], 404, "NoJobError")
    assert refused(first["ssh"], 404, "NoJobSshInfoError")


def test_what_the_first_client_deletes_is_stopped_and_stays_on_record(server: Server, first: Told) -> None:
    assert first["deleted"] == {"message": "deleted job form-deleted successfully"}
    assert first["afterDeleting"] == "STOPPED"
    assert ours(server, "/jobs/form-deleted")["state"] == "Cancelled"


def test_the_first_client_manages_tokens(first: Told) -> None:
    assert [each for each in first["tokens"]["tokens"] if first["token"]["token"].startswith(each)]
    assert first["revoked"] == {"message": "revoke successfully"}


def test_the_lines_on_the_page_for_newcomers_work(server: Server, tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "coming-from-openpai.md"
    (script,) = [block.text for block in blocks("js") if block.page == page]
    (commands,) = [block.text for block in blocks("sh") if block.page == page and "pai addc" in block.text]
    token = run_script("token", server.url, password=PASSWORD)
    program = str(sdk_folder() / PACKAGE / "lib" / "src" / "cli.js")
    for line in commands.splitlines():
        if line.startswith("pai "):
            words = line.replace("http://127.0.0.1:8080", server.url).replace('"$TOKEN"', token).split()[1:]
            done = run_node(program, *words, env={"HOME": str(tmp_path)})
            assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "ports"
    file = tmp_path / "page.js"
    file.write_text(script.replace("127.0.0.1:8080", server.url.removeprefix("http://")))
    assert "'ports " in run_node(str(file), env={"TOKEN": token}).stdout


def test_the_command_pai_submits_and_lists(server: Server, tmp_path: Path) -> None:
    program = str(sdk_folder() / PACKAGE / "lib" / "src" / "cli.js")

    def pai(*words: str) -> str:
        done = run_node(program, *words, env={"HOME": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    token = run_script("token", server.url, password=PASSWORD)
    sample = Path(__file__).parents[2] / "examples" / "openpai" / "templates.yaml"
    pai("addc", server.url, "ann", token, "--alias", "here")
    assert "ann" in pai("listc")
    assert "successfully" in pai("subj", "here", str(sample))
    assert "templates" in pai("listj", "here")
    assert json.loads(pai("getj", "here", "templates"))["jobStatus"]["username"] == "ann"
    assert pai("ssh", "here", "templates").startswith("ssh -oStrictHostKeyChecking=no -l root -p ")
    storages = [each["name"] for each in json.loads(pai("lists", "here"))["storages"]]
    assert storages == [dataset["name"] for dataset in ours(server, "/datasets")["items"]]


def test_every_operation_of_its_description_is_asked_for() -> None:
    assert set(TOLD) == described()


@pytest.mark.parametrize("operation", TOLD)
def test_answers_are_as_described(told: Teller, operation: str) -> None:
    script, key = TOLD[operation]
    assert mistakes(operation, told(script)[key]) == []
