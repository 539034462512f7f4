"""The template environment, its filters and globals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from holdfast import __version__

from .code_spans import render_code_spans
from .static_files import STATIC_FOLDER, load_assets
from .translations import LANGUAGE_NAMES, get_translations


def render_template(template: str, language: str, **variables: object) -> str:
    return create_environment(language).get_template(template).render(variables)


@cache
def create_environment(code: str) -> Environment:
    """Create the environment of a language: imported macros see its globals, but not the page."""
    environment = Environment(
        loader=FileSystemLoader(STATIC_FOLDER.with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
    )
    environment.filters.update(
        when=render_time,
        span=render_elapsed_time,
        bytes=format_bytes,
        number=render_number,
        segment=lambda text: quote(text, safe=""),
        coded=render_code_spans,
    )
    words = get_translations(code)
    environment.globals.update(
        _=words.translate_text,
        gettext=words.translate_text,
        ngettext=words.translate_plural,
        translate_message=words.translate_message,
        render_message=words.render_message,
        end_sentence=words.end_sentence,
        asset=load_assets().build_address,
        has_vendor=load_assets().has_vendor,
        languages=LANGUAGE_NAMES,
        version=__version__,
    )
    return environment


# -- filters. Scripts convert times to the time zone and language of the reader; these are read without scripts.


def render_time(at: datetime | None, kind: str = "ago") -> Markup:
    """Format a time; `kind` is how a script shows it: ago, date or clock."""
    if at is None:
        return Markup('<span class="none">–</span>')
    utc = at.astimezone(UTC)
    text = utc.isoformat(" ", "seconds")[:19]
    return Markup(f'<time datetime="{text[:10]}T{text[11:]}Z" data-show="{kind}">{text[:16]} UTC</time>')


def render_elapsed_time(began: datetime | None, ended: datetime | None, now: datetime | None = None) -> Markup:
    """Format an elapsed time; a script updates it while there is no end."""
    if began is None:
        return Markup('<span class="none">–</span>')
    until = now or datetime.now(UTC)
    if ended is not None:
        return Markup('<span class="span">{}</span>').format(format_duration(ended - began))
    return Markup('<span class="span" data-since="{}">{}</span>').format(
        began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), format_clock(until - began)
    )


def format_duration(length: timedelta) -> str:
    """Format a duration, with fractions below a second: 0.4 s."""
    tenths = int(length.total_seconds() * 10)
    return f"{max(1, tenths) / 10} s" if timedelta(0) < length < timedelta(seconds=1) else format_clock(length)


def format_clock(length: timedelta) -> str:
    """Format as 1d 02:03:04, like js/times.js."""
    seconds = max(0, int(length.total_seconds()))
    days, seconds = divmod(seconds, 86400)
    clock = f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"
    return f"{days}d {clock}" if days else clock


def format_bytes(count: float | None) -> str:
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}".replace(".0 ", " ")
        size /= 1024
    return f"{size:.1f} TiB"


def render_number(value: float | None) -> Markup:
    """Format a number; ∞ for no limit."""
    return Markup("∞") if value is None else escape(f"{value:g}")
