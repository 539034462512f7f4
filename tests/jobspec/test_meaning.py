"""What files mean beyond the goldens: recognition, site defaults, warnings."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import yaml

from holdfast.core.errors import InvalidJob
from holdfast.core.job import GIB, MIB, Hold, HoldScope, Job, JobFormat, Resources
from holdfast.jobspec import Defaults, detect_format, parse_job


def parse(text: str, **defaults: object) -> Job:
    return parse_job(text, defaults=Defaults(**defaults)).job  # type: ignore[arg-type]


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJob) as caught:
        parse_job(text)
    return [(problem.field, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("keys", "dialect"),
    [
        ({"protocolVersion": 2}, JobFormat.OPENPAI_V2),
        ({"taskRoles": {"a": {}}}, JobFormat.OPENPAI_V2),
        ({"jobName": "x"}, JobFormat.OPENPAI_V1),
        ({"taskRoles": []}, JobFormat.OPENPAI_V1),
        ({"displayName": "x", "command": "y"}, JobFormat.PRIMEHUB),
        ({"instanceType": "x"}, JobFormat.PRIMEHUB),
        ({"groupId": "x", "command": "y", "image": "z"}, JobFormat.PRIMEHUB),
        ({"name": "x", "command": "y"}, JobFormat.HOLDFAST),
        ({"groupName": "x", "roles": {}}, JobFormat.HOLDFAST),
        ({}, JobFormat.HOLDFAST),
    ],
)
def test_dialect_is_recognised_by_its_keys(keys: dict[str, object], dialect: JobFormat) -> None:
    assert detect_format(keys) is dialect


def test_dialect_can_be_forced() -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job("name: a\ncommand: b\n", dialect=JobFormat.PRIMEHUB)
    assert "displayName" in {problem.field for problem in caught.value.problems}


def test_site_defaults_fill_what_the_file_leaves_out() -> None:
    site = {"resources": Resources(cpu=2, memory=GIB, gpu=1, shm=MIB), "image": "base", "group": "staff"}
    job = parse("name: a\ncommand: b\nresources: {memory: 4Gi, shm: none}\n", **site)
    assert job.group == "staff"
    assert job.roles[0].image == "base"
    assert job.roles[0].resources == Resources(cpu=2, memory=4 * GIB, gpu=1, shm=None)


SIZES = {"small": Resources(cpu=0.5, memory=GIB), "large": Resources(cpu=8, memory=64 * GIB, cpu_request=4)}


def sizes_of(text: str) -> dict[str, Resources]:
    job = parse_job(text, defaults=Defaults(instance_types=SIZES)).job
    return {role.name: role.resources for role in job.roles}


def test_a_size_is_named_and_what_stands_beside_it_goes_first() -> None:
    plain = "name: x\ncommand: y\ninstance_type: large\n"
    assert sizes_of(plain) == {"main": SIZES["large"]}
    beside = plain + "resources: {memory: 2Gi, gpu: 1}\n"
    assert sizes_of(beside) == {"main": Resources(cpu=8, memory=2 * GIB, gpu=1, cpu_request=4)}
    # Half of eight cores was to be free; of two cores asked for it is both.
    assert sizes_of(plain + "resources: {cpu: 2}\n") == {"main": Resources(cpu=2, memory=64 * GIB)}


def test_a_role_names_its_own_size() -> None:
    text = """
    name: x
    command: y
    instance_type: large
    resources: {gpu: 1}
    roles:
      a:
      b: {instance_type: small}
      c: {resources: {gpu: 2}}
      d: {instance_type: small, resources: {gpu: 3}}
    """
    gpus = {name: (size.cpu, size.gpu) for name, size in sizes_of(text).items()}
    assert gpus == {"a": (8, 1), "b": (0.5, 0), "c": (8, 2), "d": (0.5, 3)}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("name: x\ncommand: y\ninstance_type: lage\n", "instance_type"),
        ("name: x\ncommand: y\nroles: {a: {instance_type: lage}, b: }\n", "roles.a.instance_type"),
    ],
)
def test_a_size_that_nobody_knows_is_guessed_at(text: str, field: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        sizes_of(text)
    (problem,) = caught.value.problems
    assert (problem.field, problem.message) == (field, "'lage' is not an instance type")
    assert problem.hint is not None
    assert "large" in problem.hint


def test_instance_types_are_listed_when_unknown() -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job('{"displayName": "a", "image": "b", "command": "c", "instanceType": "xxl"}', defaults=Defaults(
            instance_types={"small": Resources(), "large": Resources()},
        ))  # fmt: skip
    assert caught.value.hint == "Valid names: large, small."


@pytest.mark.parametrize(
    ("written", "hold"),
    [
        ("true", Hold()),
        ("false", Hold(keep=HoldScope.NOTHING)),
        ("0", Hold(keep=HoldScope.NOTHING)),
        ("{for: 0s, keep: files}", Hold(keep=HoldScope.NOTHING)),
        ("2h", Hold(duration=timedelta(hours=2))),
        ("3600", Hold(duration=timedelta(hours=1))),
        ("{keep: files}", Hold(keep=HoldScope.FILES)),
        ("{on: failure, for: 7d}", Hold(duration=timedelta(days=7))),
        ("{}", Hold()),
        ("", None),
    ],
)
def test_hold(written: str, hold: Hold | None) -> None:
    assert parse(f"name: a\ncommand: b\nhold: {written}\n").hold == hold


@pytest.mark.parametrize(
    ("written", "limit"), [("none", timedelta(0)), ("0", timedelta(0)), ("90", timedelta(seconds=90)), ("", None)]
)
def test_time_limit(written: str, limit: timedelta | None) -> None:
    assert parse(f"name: a\ncommand: b\ntime_limit: {written}\n").time_limit == limit


def test_an_explicit_variable_wins_over_a_secret_of_that_name() -> None:
    job = parse("name: a\ncommand: b\nsecrets: {A: s, B: s}\nenv: {A: mine}\n")
    assert job.roles[0].env == {"A": "mine", "B": "<% $secrets.B %>"}


def test_secrets_are_not_exported_when_told_so() -> None:
    job = parse("name: a\ncommand: b\nsecrets: {deep: {er: [1]}}\nexport_secrets: false\n")
    assert job.roles[0].env == {}
    assert job.secrets == {"deep": {"er": [1]}}


def test_task_retries_per_role_and_for_all() -> None:
    job = parse(
        "name: a\ncommand: b\ngang: false\nretry: {tasks: 3}\nroles: {x: , y: {retry: 1}, z: {retry: {tasks: 0}}}\n"
    )
    assert [role.max_task_retries for role in job.roles] == [3, 1, 0]
    assert job.max_retries == 0


def test_task_retries_under_gang_placement_are_warned_about() -> None:
    parsed = parse_job("name: a\ncommand: b\nroles:\n  w: {retry: 2}\n")
    assert [(warning.field, warning.line) for warning in parsed.warnings] == [("roles.w", 4)]


def test_a_number_as_the_command_is_warned_about() -> None:
    assert "run as the command `5`" in parse_job("name: a\ncommand: 5\n").warnings[0].message
    assert not parse_job("name: a\ncommand: true\n").warnings
    assert not parse_job("name: a\ncommand: '5'\n").warnings


def test_unreachable_completion_is_warned_about() -> None:
    parsed = parse_job("name: a\ncommand: b\nroles:\n  w: {instances: 2, completion: {min_succeeded: 3}}\n")
    assert "completion rule that never applies" in parsed.warnings[0].message


def test_unknown_secret_is_warned_about_once() -> None:
    parsed = parse_job("name: a\ncommand: b <% $secrets.x %>\nenv: {A: <% $secrets.x %>, B: <% $secrets.y %>}\n")
    assert [warning.message.split(",")[0] for warning in parsed.warnings] == [
        "refers to <% $secrets.x %>",
        "refers to <% $secrets.y %>",
    ]


def test_two_mounts_at_one_place() -> None:
    assert problems("name: a\ncommand: b\nroles:\n  w: {mounts: ['/a:/x', '/b:/x/']}\n") == [
        ("roles.w", "mounts two folders at the same path")
    ]


def test_long_variables_are_refused() -> None:
    assert problems(f"name: a\ncommand: b\nenv: {{A: {'x' * 130_000}}}\n")[0][0] == "env.A"


def test_parsing_reads_the_user_into_v1_paths_only_when_known() -> None:
    text = '{"jobName": "j", "image": "i", "dataDir": "$PAI_DEFAULT_FS_URI/$PAI_USERNAME/$PAI_JOB_NAME/$PAI_JOB_NAMES",\
             "taskRoles": [{"name": "w", "command": "c"}]}'
    assert parse(text).roles[0].env == {"PAI_DATA_DIR": "/$PAI_USERNAME/j/$PAI_JOB_NAMES"}
    known = parse(text, user="ada", file_system="hdfs://x")
    assert known.roles[0].env["PAI_DATA_DIR"] == "hdfs://x/ada/j/$PAI_JOB_NAMES"
    assert known.roles[0].env["PAI_OUTPUT_DIR"] == "hdfs://x/Output/ada/j"


PAI = """\
protocolVersion: 2
name: n
type: job
prerequisites: [{type: dockerimage, name: i, uri: i}]
taskRoles:
  w:
    dockerImage: i
    instances: 5
    completion: COMPLETION
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: [x]
"""


@pytest.mark.parametrize(
    ("written", "failed", "succeeded"),
    [
        ("", 1, 5),
        ("{}", 1, 5),
        ("{minFailedInstances: 0, minSucceededInstances: 0}", 1, 5),
        ("{minFailedInstances: null, minSucceededInstances: null}", 1, 5),
        ("{minFailedInstances: -1, minSucceededInstances: -1}", None, None),
        ("{minFailedInstances: -7, minSucceededInstances: 2}", None, 2),
        ("{minFailedInstances: 3}", 3, 5),
    ],
)
def test_v2_completion(written: str, failed: int | None, succeeded: int | None) -> None:
    completion = parse(PAI.replace("COMPLETION", written)).roles[0].completion
    assert (completion.min_failed, completion.min_succeeded) == (failed, succeeded)


@pytest.mark.parametrize(
    ("written", "failed", "succeeded"),
    [
        ("", 1, None),
        (', "minFailedTaskCount": null, "minSucceededTaskCount": null', None, None),
        (', "minFailedTaskCount": 2, "minSucceededTaskCount": 3', 2, 3),
    ],
)
def test_v1_completion(written: str, failed: int | None, succeeded: int | None) -> None:
    role = f'{{"name": "w", "taskNumber": 3, "command": "c"{written}}}'
    completion = parse(f'{{"jobName": "j", "image": "i", "taskRoles": [{role}]}}').roles[0].completion
    assert (completion.min_failed, completion.min_succeeded) == (failed, succeeded)


@pytest.mark.parametrize(("word", "priority"), [("crit", 120), ("prod", 100), ("test", 10), ("oppo", -1)])
def test_v2_priority_classes(word: str, priority: int) -> None:
    text = PAI.replace("COMPLETION", "{}") + f"extras: {{hivedScheduler: {{jobPriorityClass: {word}}}}}\n"
    assert parse(text).priority == priority


@pytest.mark.parametrize(
    ("written", "meant"), [("3", 3), ("0", 0), ("-1", -1), ("-2", -2), ("-3", 0), ("-2000000000", 0)]
)
def test_v2_any_number_of_task_retries_is_taken(written: str, meant: int) -> None:
    text = PAI.replace("COMPLETION", "{}").replace("instances: 5", f"taskRetryCount: {written}")
    assert parse(text).roles[0].max_task_retries == meant


@pytest.mark.parametrize(
    ("written", "fine"), [("1.10", True), ("one", True), ("'2'", True), ("true", False), ("[1]", False)]
)
def test_v2_versions_are_text_or_numbers(written: str, fine: bool) -> None:
    text = PAI.replace("COMPLETION", "{}")
    for place in (f"{text}version: {written}\n", text.replace("uri: i}", f"uri: i, version: {written}}}")):
        if fine:
            parse(place)
        else:
            [(_, message)] = problems(place)
            assert message.startswith("must be a string or a number")


@pytest.mark.parametrize(
    "more",
    [
        "defaults: {anything: 1}",
        "extras: {submitFrom: a, tags: [b], sdk: {plugins: []}, jobStatusChangeNotification: {running: true}}",
        "extras: {tensorBoard: {randomStr: x, storage: {type: NFS}, logDirectories: {a: /b}}}",
        "extras: {hivedScheduler: {taskRoles: {w: {skuNum: 1, affinityGroupName: null}}}}",
        "deployments: [{name: d, taskRoles: {nobody: {preCommands: [x]}}}]",
        "deployments: [{protocolVersion: 2, description: a, name: d, taskRoles: {w: {}}}]",
        "parameters: {a: null, b: [1, {c: d}]}",
    ],
)
def test_v2_keys_of_other_clients_are_tolerated(more: str) -> None:
    assert parse(PAI.replace("COMPLETION", "{}") + more + "\n").name == "n"


@pytest.mark.parametrize(
    ("written", "rule", "field"),
    [
        ("deployments: []", "minItems", "deployments"),
        ("deployments: [{name: d, taskRoles: {}}]", "minProperties", "deployments[0].taskRoles"),
        ("deployments: [{name: d, taskRoles: {w: {preCommands: []}}}]", "minItems",
         "deployments[0].taskRoles.w.preCommands"),
        ("deployments: [{name: d, taskRoles: {w: {more: 1}}}]", "additionalProperties",
         "deployments[0].taskRoles.w.more"),
        ("deployments: [{protocolVersion: 3, name: d, taskRoles: {w: {}}}]", "enum", "deployments[0].protocolVersion"),
        ("jobRetryCount: 1.5", "type", "jobRetryCount"),
        ("secrets: [a]", "type", "secrets"),
        ("parameters: text", "type", "parameters"),
        ("extras: {gangAllocation: 'false'}", "type", "extras.gangAllocation"),
        ("taskroles: {}", "additionalProperties", "taskroles"),
    ],
)  # fmt: skip
def test_v2_rules(written: str, rule: str, field: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse(PAI.replace("COMPLETION", "{}") + written + "\n")
    assert [(problem.rule, problem.field) for problem in caught.value.problems] == [(rule, field)]


def test_v2_plugins_for_roles_that_are_not_there_are_only_warned_of() -> None:
    plugin = "extras: {com.microsoft.pai.runtimeplugin: [{plugin: ssh, taskroles: [v]}]}\n"
    [warning] = parse_job(PAI.replace("COMPLETION", "{}") + plugin).warnings
    assert "'v', which is not a task role" in warning.message
    assert warning.hint == "Valid names: w."


def test_v2_plugins_that_are_not_there_are_warned_of() -> None:
    plugin = "extras: {com.microsoft.pai.runtimeplugin: [{plugin: sssh}, {plugin: notify}, {plugin: cmd}]}\n"
    first, second = parse_job(PAI.replace("COMPLETION", "{}") + plugin).warnings
    assert "'sssh'" in first.message
    assert (first.field, first.hint) == ('extras["com.microsoft.pai.runtimeplugin"][0].plugin', "Did you mean 'ssh'?")
    assert second.hint == "Valid names: cmd, git, ssh, tensorboard, teamwise_storage."


def test_v2_prerequisites_with_plugins_that_are_not_there_are_warned_of() -> None:
    tree = yaml.safe_load(PAI.replace("COMPLETION", "{}"))
    for name, known in (("ssh", True), ("sshd", False)):
        item = {"type": "script", "name": "p", "plugin": f"com.microsoft.pai.runtimeplugin.{name}"}
        other = {"type": "script", "name": "o", "plugin": "of.somebody.else"}
        file = {**tree, "prerequisites": [*tree["prerequisites"], item, other]}
        assert [warning.hint for warning in parse_job(json.dumps(file)).warnings] == (
            [] if known else ["Did you mean 'ssh'?"]
        )


def test_v2_deployments_for_roles_that_are_not_there_are_warned_of() -> None:
    tree = yaml.safe_load(PAI.replace("COMPLETION", "{}"))
    tree["deployments"] = [{"name": "d", "taskRoles": {"w": {}, "W": {"preCommands": ["x"]}, "other": {}}}]
    first, second = parse_job(json.dumps(tree)).warnings
    assert (first.field, first.hint) == ("deployments[0].taskRoles.W", "Did you mean 'w'?")
    assert second.hint == "Valid names: w."


def test_v2_commands_that_vanish() -> None:
    text = PAI.replace("COMPLETION", "{}").replace("[x]", "['<% $parameters.a %>']") + "parameters: {a: ' '}\n"
    assert problems(text) == [("taskRoles.w.commands", "has no commands after its references are resolved")]


@pytest.mark.parametrize(
    ("secrets", "fate"),
    [("{a: b}", "it is removed from the text"), ("{}", "stays"), ("{_registry_passwords: {i: b}}", "stays")],
)
def test_v2_warnings_tell_what_becomes_of_tags_that_refer_to_nothing(secrets: str, fate: str) -> None:
    line = "echo <% $parameters.no %> <% $secrets.no %>"
    text = PAI.replace("COMPLETION", "{}").replace("[x]", f"['{line}']") + f"secrets: {secrets}\n"
    warnings = [warning.message for warning in parse_job(text).warnings]
    assert len(warnings) == 2
    assert all(fate in warning for warning in warnings), warnings


@pytest.mark.parametrize(("written", "meant"), [("0", 512), ("null", 512), ("1", 1)])
def test_v2_shared_memory(written: str, meant: int) -> None:
    options = f"extraContainerOptions: {{shmMB: {written}}}"
    assert parse(PAI.replace("completion: COMPLETION", options)).roles[0].resources.shm == meant * MIB


def test_v1_numbers_in_quotes_are_numbers() -> None:
    ports = {"label": "p", "beginAt": "0", "portNumber": "2"}
    role = {"name": "w", "command": "x", "taskNumber": "2", "cpuNumber": "3", "memoryMB": " 64", "shmMB": "32"}
    role |= {"gpuNumber": "1", "minFailedTaskCount": "2"}
    file = {"jobName": "a", "image": "i", "retryCount": "-1", "taskRoles": [{**role, "portList": [ports]}]}
    job = parse(json.dumps(file))
    assert (job.max_retries, job.roles[0].instances, job.roles[0].completion.min_failed) == (-1, 2, 2)
    assert job.roles[0].resources == Resources(cpu=3, memory=64 * MIB, gpu=1, shm=32 * MIB)
    assert job.roles[0].ports["p"] == 2


@pytest.mark.parametrize("written", ["two", "2.5", "", "\u0662", "1_0", "9" * 16])
def test_v1_other_texts_are_no_numbers(written: str) -> None:
    role = {"name": "w", "command": "x", "taskNumber": written}
    [(field, message)] = problems(json.dumps({"jobName": "a", "image": "i", "taskRoles": [role]}))
    assert (field, "whole number" in message) == ("taskRoles[0].taskNumber", True)


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_an_empty_virtual_cluster_is_the_usual_one(dialect: str) -> None:
    v1 = '{"jobName": "a", "image": "i", "virtualCluster": "", "taskRoles": [{"name": "w", "command": "true"}]}'
    v2 = PAI.replace("COMPLETION", "{}") + 'defaults: {virtualCluster: ""}\n'
    assert parse(v1 if dialect == "v1" else v2, group="staff").group == "staff"


def test_v2_secrets_are_kept_apart_from_the_config() -> None:
    text = PAI.replace("COMPLETION", "{}") + "secrets: {a: swordfish}\n"
    job = parse(text)
    assert job.secrets == {"a": "swordfish"}
    assert "swordfish" not in str(job.extras)


def test_v2_passwords_in_the_open_join_the_secrets_without_replacing_any() -> None:
    text = PAI.replace("COMPLETION", "{}").replace("uri: i}", "uri: i, auth: {password: 0042}}")
    job = parse(text + "secrets: {_registry_passwords: mine}\n")
    assert job.secrets == {"_registry_passwords": "mine", "_registry_passwords_": {"i": "0042"}}
    reference = "<% $secrets._registry_passwords_.i %>"
    assert job.extras["openpai"]["registries"]["i"]["password"] == reference
    assert job.extras["openpai"]["config"]["prerequisites"][0]["auth"] == {"password": reference}


TEAM = "com.microsoft.pai.runtimeplugin: [{plugin: teamwise_storage, parameters: {storageConfigNames: [t]}}]"


@pytest.mark.parametrize(
    ("extras", "storages"),
    [
        ("{}", None),
        ("{storages: []}", []),
        (f"{{storages: , {TEAM}}}", []),
        ("{storages: [{name: a}, {name: b, mountPath: /b}]}", [("a", "/mnt/a"), ("b", "/b")]),
        (f"{{{TEAM}}}", [("t", "/mnt/t")]),
    ],
)
def test_v2_storages(extras: str, storages: list[tuple[str, str]] | None) -> None:
    job = parse(PAI.replace("COMPLETION", "{}") + f"extras: {extras}\n")
    found = job.extras["openpai"].get("storages")
    assert (found and [(entry["name"], entry["mountPath"]) for entry in found]) == storages


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("instances: true", "must be a whole number, not true"),
        ("resources: {cpu: false}", "must be a number, not false"),
        ("resources: {memory: true}", "must be a size, not true"),
        ("resources: {memory: 1.5}", "must be a size, not 1.5"),
        ("time_limit: -5", "must be between 0 and 36500 days, not -5"),
        ("time_limit: 99999999999999999999999", "must be between 0 and 36500 days"),
        ("time_limit: 2000000w", "must be between 0 and 36500 days"),
        ("hold: [1]", "must be true, false, a duration"),
        ("instances: '3'", "must be a whole number, not '3'"),
        ("datasets: [a, b, a]", "contains a dataset twice"),
        ("datasets: [../etc]", "must contain only letters, digits"),
        ("datasets: [.hidden]", "start with a letter or digit"),
    ],
)
def test_wrong_values(written: str, says: str) -> None:
    assert says in problems(f"name: a\ncommand: b\n{written}\n")[0][1]


@pytest.mark.parametrize(
    ("lines", "field", "hint"),
    [
        ("command: [echo, a]", "command", "Use commands"),
        ("command: a\nenv: [A=1, B=2]", "env", "Write A: VALUE"),
        ("command: a\nenv: A=1", "env", "Write A: VALUE"),
        ("command: a\nmounts: /data", "mounts", 'Write it as a list: ["/data"].'),
        ("command: a\ntags: 7", "tags", 'Write it as a list: ["7"].'),
        ("command: a\ndatasets: mnist", "datasets", 'Write it as a list: ["mnist"].'),
        ("command: a\nresources:\n\tcpu: 1", "", "Indent with spaces"),
        ("command: a\nresources:\n  cpu: 1\n\tgpu: 1", "", "Indent with spaces"),
        ("command: |\n\techo a", "", "Indent with spaces"),
    ],
)
def test_common_slips_get_a_hint(lines: str, field: str, hint: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(f"name: x\n{lines}\n")
    (problem,) = caught.value.problems
    assert problem.field == field
    assert hint in str(problem.hint)


@pytest.mark.parametrize("secrets", ["hunter2=", "[hunter2=x]", "[hunter2]", "{a: [hunter2=x]}"])
def test_hints_show_no_secret(secrets: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(f"name: x\ncommand: a\nsecrets: {secrets}\n")
    assert "hunter2" not in repr(caught.value.problems)


@pytest.mark.parametrize("target", ["/phfs", "/phfs/", "//phfs", "/phfs/data"])
def test_nothing_else_is_mounted_where_the_groups_files_are(target: str) -> None:
    text = f"name: a\ncommand: b\nmounts: ['/data:{target}']\n"
    assert parse(text).files is False
    assert parse(f"{text.replace('/phfs', '/phfsx')}files: true\n").files is True
    with pytest.raises(InvalidJob) as caught:
        parse_job(f"{text}files: true\n")
    (problem,) = caught.value.problems
    assert "/phfs, where files: true mounts the group's files" in problem.message
    assert "remove files: true" in str(problem.hint)
