"""Three languages: which one a visitor reads, and what services say, said in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po

from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.messages import join_messages, msg
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.server.portal import translations
from holdfast.server.portal.translations import LANGUAGE_NAMES, Translations, choose_language, get_translations
from holdfast.services.people.groups import GroupChange

from ..rig import Rig
from .page_client import PASSWORD, open_desk, text_of

CHINESE = ("zh-Hans", "zh-Hant")
LOCALE = Path(translations.__file__).with_name("locale")


# -- which language


@pytest.mark.parametrize(
    ("kept", "accepted", "code"),
    [
        (None, "", "en"),
        (None, "de-DE,de;q=0.9", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"),
        (None, "zh-TW", "zh-Hant"),
        (None, "zh-Hant-HK,en", "zh-Hant"),
        (None, "fr, zh-MO;q=0.4, en;q=0.2", "zh-Hant"),
        (None, "en-GB,zh;q=0.9", "en"),
        (None, "zh;q=0", "en"),
        (None, "zh;q=high,en", "en"),
        ("zh-Hant", "en", "zh-Hant"),
        ("tlh", "zh", "zh-Hans"),
        (None, "x" * 100_000 + ",zh", "en"),
    ],
)
def test_the_choice_is_the_visitors_then_the_browsers(kept: str | None, accepted: str, code: str) -> None:
    assert choose_language(kept, accepted) == code


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "asked", "login"), [("zh-Hans", "zh-CN", "密码"), ("zh-Hant", "zh-TW", "密碼"), ("en", "en", "Password")]
)
async def test_a_page_is_in_the_language_that_the_browser_asks_for(rig: Rig, code: str, asked: str, login: str) -> None:
    page = (await rig.client.get("/login", headers={"Accept-Language": asked})).text
    assert f'<html lang="{code}"' in page
    assert f">{login}</label>" in page


# -- what services say


Provoke = Callable[[Rig], Awaitable[Any]]

SAID: list[tuple[Provoke, str, str]] = [
    (lambda rig: rig.house.services.jobs.get(rig.house.admin, "no-such"), "找不到作业 no-such", "找不到工作 no-such"),
    (
        lambda rig: rig.house.services.tokens.login("ann", "wrong", "::1"),
        "用户名或密码不正确",
        "使用者名稱或密碼不正確",
    ),
    (lambda rig: rig.house.user("a b"), "'a b' 不是有效的用户名称", "'a b' 不是有效的使用者名稱"),
    (lambda rig: rig.house.user("ann", password="short"), "密码必须至少有 8 个字符", "密碼必須至少有 8 個字元"),
    (
        lambda rig: rig.house.submit("name: x\ncommand: echo\nimage: a b\n"),
        "image：必须是不含空格的镜像名称，而不是 'a b'",
        "image：必須是不含空格的映像檔名稱，而不是 'a b'",
    ),
    (lambda rig: rig.house.submit("{"), "文件不是有效的 YAML", "檔案不是有效的 YAML"),
]


async def _message(rig: Rig, provoke: Provoke) -> str:
    with pytest.raises(UserError) as error:
        await provoke(rig)
    return error.value.message


@pytest.mark.anyio
async def test_refusals_are_told(rig: Rig) -> None:
    for provoke, simplified, traditional in SAID:
        message = await _message(rig, provoke)
        assert get_translations("zh-Hans").translate_message(message).startswith(simplified)
        assert get_translations("zh-Hant").translate_message(message).startswith(traditional)
        assert get_translations("en").translate_message(message) == message


BAD_FILES = (
    "", "\0", "- a\n- b\n", "name: x\n", "name: x\ncommand: []\n", "name: x\ncommand: echo\ncolour: red\n",
    "name: x\ncommand: echo\nresources: {cpu: many, memory: 3, gpu: 0.5}\n", "name: x\ncommand: echo\npriority: high\n",
    "name: x\ncommand: echo\ntime_limit: soon\n", "name: x\ncommand: echo\nports: 3\n", "name: x\nname: y\n",
    "name: x\ncommand: echo\ngang: maybe\n", "name: x\ncommand: echo\nmounts: [data]\n", "a: *b\n", "{\"name\": ",
    "name: x\ncommand: echo\nenv: {A B: c}\n", "name: x\ncommand: echo\nsecrets: {a: '******'}\n",
    "name: x\nroles: {a: {command: echo, instances: 0}}\n", "name: x\ncommand: echo\nimag: host\n", "a:\n\t- b\n",
    "name: x\ncommand: echo\ninstance_type: huge\n", "name: x\ncommand: echo\ndatasets: [none]\n",
    "protocolVersion: 2\nname: x\ntype: job\ntaskRoles: {}\n", "protocolVersion: 2\nname: x\nprerequisites: 3\n",
)  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("code", CHINESE)
async def test_every_mistake_in_a_job_file_is_told(rig: Rig, code: str) -> None:
    words, untold = get_translations(code), []
    for text in BAD_FILES:
        with pytest.raises(UserError) as error:
            await rig.house.submit(text)
        problems = error.value.problems if isinstance(error.value, InvalidJob) else (error.value,)
        for problem in problems:
            untold += [said for said in (problem.message, problem.hint) if said and not _told(words, said)]
    assert untold == []


@pytest.mark.anyio
@pytest.mark.parametrize("code", CHINESE)
async def test_why_a_job_waits_and_what_happened_to_it_is_told(rig: Rig, code: str) -> None:
    house, words = rig.house, get_translations(code)
    ann = await house.user("ann", "lab")
    await house.services.groups.change(house.admin, "lab", GroupChange(quota=Quota(cpu=1.0)))
    first = await house.submit("name: one\ncommand: sleep 100\nresources: {cpu: 1}\n", ann)
    await house.until(first.id, JobState.RUNNING)
    jobs = [await house.submit(f"name: n{n}\ncommand: sleep 100\nresources: {{cpu: 1}}\n", ann) for n in range(3)]
    reasons = (await house.services.jobs.get(ann, jobs[-1].id)).waiting
    assert reasons
    ended = await house.run("name: fails\ncommand: exit 3\nretry: 1\n")
    await house.services.jobs.stop(ann, first.id)
    await house.until(first.id)
    said = [*reasons, ended.message, (await house.services.jobs.wait(ann, first.id, 0)).message]
    for job in (ended.id, first.id):
        said += [event.message for event in await house.services.jobs.list_events(house.admin, job)]
    assert [text for text in said if text and not _told(words, text)] == []


def _told(words: Translations, text: str) -> bool:
    """In Chinese, with no run of English words left but what is typed and shown as code."""
    told = words.translate_message(text)
    bare = re.sub(r"`[^`]*`|'[^']*'|<% .*? %>", "", told)
    return told != text and re.search(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b", bare) is None


@pytest.mark.anyio
async def test_an_error_page_tells_it(rig: Rig) -> None:
    await rig.house.user("ann", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        answer = await desk.get("/jobs/no-such", headers={"Accept-Language": "zh-TW"})
    assert answer.status_code == 404
    assert "找不到工作 no-such" in text_of(answer.text)


# -- texts that anybody wrote


@pytest.mark.parametrize("code", CHINESE)
@pytest.mark.parametrize(
    "name",
    ["{0.__class__}", "{ref.__init__.__globals__}", "{}", "{{x}}", "%(x)s %n", "\\g<0> \\1", "<b>&", "a; b: c. d, e"],
)
def test_what_stands_in_a_blank_is_never_read_as_a_text_of_ours(code: str, name: str) -> None:
    told = get_translations(code).translate_message(msg("Job {ref} not found", ref=name))
    assert told.endswith(f" {name}")
    assert not told.startswith("There")


@pytest.mark.parametrize("code", CHINESE)
def test_texts_that_are_no_messages_stay_as_they_are(code: str) -> None:
    words = get_translations(code)
    for text in ("x" * 1_000_000, "Job  not found" * 1000, "\0" * 5000, "Job x not found", "{}{", "a; b: c"):
        assert words.translate_message(text) == text


def test_what_nobody_translated_is_marked_as_english() -> None:
    words = get_translations("zh-Hans")
    assert words.render_message("Wholly <new> words here") == '<span lang="en">Wholly &lt;new&gt; words here</span>'
    assert words.render_message(msg("Job {ref} not found", ref="<b>")) == "找不到作业 &lt;b&gt;"
    assert words.render_message("") == ""
    assert get_translations("en").render_message("a <b>") == "a &lt;b&gt;"


def test_names_are_not_taken_for_words() -> None:
    words = get_translations("zh-Hans")
    assert words.translate_message(msg("User {name} not found", name="job")) == "找不到用户 job"
    assert words.translate_message(msg("Submitted by {name}", name="admin")) == "由 admin 提交"


def test_messages_within_messages_are_translated() -> None:
    words = get_translations("zh-Hans")
    none = msg("Job {ref} not found", ref="x")
    assert words.translate_message(join_messages("; ", (none, none))) == "找不到作业 x；找不到作业 x"
    assert words.translate_message("a: " + none) == "a: 找不到作业 x"


# -- catalogues


def _messages(code: str) -> list[tuple[tuple[str, ...], str]]:
    found = []
    for path in sorted((LOCALE / code).glob("*.po")):
        with path.open("rb") as file:
            for message in read_po(file):
                if message.id:
                    ids = (message.id,) if isinstance(message.id, str) else tuple(message.id)
                    found.append((ids, message.string if isinstance(message.string, str) else message.string[0]))
    return found


@pytest.mark.parametrize("code", CHINESE)
def test_every_translation_can_be_filled_in(code: str) -> None:
    for ids, translated in _messages(code):
        values = {
            name: "?" for text in ids for pair in re.findall(r"\{([a-z_0-9]+)\}|%\((\w+)\)s", text) for name in pair
        }
        if any("%(" in text for text in ids):
            assert translated % values
        elif any(re.search(r"\{[a-z_0-9]+\}", text) for text in ids):
            assert translated.format(**values)


def test_both_kinds_of_chinese_say_the_same_texts() -> None:
    assert {ids for ids, _ in _messages("zh-Hans")} == {ids for ids, _ in _messages("zh-Hant")}
    assert set(LANGUAGE_NAMES) == {"en", *CHINESE}


# Words that belong to the other side of the strait.
MAINLAND = "信息|軟件|默認|缺省|網絡|數據|登錄|用戶(?!端)|服務器|鏡像(?!站)|隊列|令牌|文件夾|打印|內存|鼠標|臺"
TAIWAN = "记忆体|软体|预设|网路|资料|登入|使用者|伺服器|映像档|权杖|执行绪|档案"


@pytest.mark.parametrize(("code", "foreign"), [("zh-Hant", MAINLAND), ("zh-Hans", TAIWAN)])
def test_neither_is_the_other_in_different_characters(code: str, foreign: str) -> None:
    assert [translated for _, translated in _messages(code) if re.search(foreign, translated)] == []
