"""Templates: the environment they live in, and what they may call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from holdfast import __version__

from .code_spans import coded
from .languages import CODES, words_in
from .static_files import FOLDER, assets


def render(template: str, language: str, **variables: object) -> str:
    return environment(language).get_template(template).render(variables)


@cache
def environment(code: str) -> Environment:
    """One for each language: macros that a template imports see its words, and nothing of the page."""
    found = Environment(
        loader=FileSystemLoader(FOLDER.with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
    )
    found.filters.update(
        when=show_when,
        span=show_span,
        bytes=show_bytes,
        number=show_number,
        segment=lambda text: quote(text, safe=""),
        coded=coded,
    )
    words = words_in(code)
    found.globals.update(
        _=words.say,
        gettext=words.say,
        ngettext=words.count,
        tell=words.tell,
        told=words.told,
        ended=words.ended,
        asset=assets().address,
        has_vendor=assets().has_vendor,
        languages=CODES,
        version=__version__,
    )
    return found


# -- filters. Scripts put times into the reader's own zone and language; what is here is read without them.


def show_when(at: datetime | None, kind: str = "ago") -> Markup:
    """An instant; `kind` says how a script shows it: ago, date or clock."""
    if at is None:
        return Markup('<span class="none">–</span>')
    utc = at.astimezone(UTC)
    text = utc.isoformat(" ", "seconds")[:19]
    return Markup(f'<time datetime="{text[:10]}T{text[11:]}Z" data-show="{kind}">{text[:16]} UTC</time>')


def show_span(began: datetime | None, ended: datetime | None, now: datetime | None = None) -> Markup:
    """How long something took, or takes: a script counts on while it has no end."""
    if began is None:
        return Markup('<span class="none">–</span>')
    until = now or datetime.now(UTC)
    if ended is not None:
        return Markup('<span class="span">{}</span>').format(show_length(ended - began))
    return Markup('<span class="span" data-since="{}">{}</span>').format(
        began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), show_seconds(until - began)
    )


def show_length(length: timedelta) -> str:
    """What has ended within a second still took some time: 0.4 s."""
    tenths = int(length.total_seconds() * 10)
    return f"{max(1, tenths) / 10} s" if timedelta(0) < length < timedelta(seconds=1) else show_seconds(length)


def show_seconds(length: timedelta) -> str:
    """1d 02:03:04, as js/times.js counts on, too."""
    seconds = max(0, int(length.total_seconds()))
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}d {clock}" if days else clock


def show_bytes(count: float | None) -> str:
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}".replace(".0 ", " ")
        size /= 1024
    return f"{size:.1f} TiB"


def show_number(value: float | None) -> Markup:
    """∞ for no bound."""
    return Markup("∞") if value is None else escape(f"{value:g}")
