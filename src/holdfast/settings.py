"""All settings, loaded from a TOML file, then the environment (HOLDFAST_SECTION_NAME), then options."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import PrivateAttr, ValidationError

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.settings_engines import EngineSettings, ImageSettings, SlurmSettings
from holdfast.settings_names import build_unknown_setting_error
from holdfast.settings_sections import (
    AccessSettings,
    DiskSettings,
    FileSettings,
    HoldSettings,
    JobSettings,
    LogSettings,
    MailSettings,
    MetricsSettings,
    MountSettings,
    NodeSettings,
    NotificationSettings,
    OpenPaiSettings,
    PrimeHubSettings,
    QueueSettings,
    SandboxSettings,
    ScheduleSettings,
    ServerSettings,
    SettingsSection,
    SshSettings,
    StoreSettings,
)


class Settings(SettingsSection):
    server: ServerSettings = ServerSettings()  # type: ignore[call-arg]
    store: StoreSettings = StoreSettings()  # type: ignore[call-arg]
    jobs: JobSettings = JobSettings()  # type: ignore[call-arg]
    logs: LogSettings = LogSettings()  # type: ignore[call-arg]
    disk: DiskSettings = DiskSettings()  # type: ignore[call-arg]
    node: NodeSettings = NodeSettings()  # type: ignore[call-arg]
    engine: EngineSettings = EngineSettings()  # type: ignore[call-arg]
    slurm: SlurmSettings = SlurmSettings()  # type: ignore[call-arg]
    images: ImageSettings = ImageSettings()  # type: ignore[call-arg]
    sandbox: SandboxSettings = SandboxSettings()  # type: ignore[call-arg]
    mounts: MountSettings = MountSettings()  # type: ignore[call-arg]
    access: AccessSettings = AccessSettings()  # type: ignore[call-arg]
    queue: QueueSettings = QueueSettings()  # type: ignore[call-arg]
    files: FileSettings = FileSettings()  # type: ignore[call-arg]
    schedules: ScheduleSettings = ScheduleSettings()  # type: ignore[call-arg]
    openpai: OpenPaiSettings = OpenPaiSettings()  # type: ignore[call-arg]
    primehub: PrimeHubSettings = PrimeHubSettings()  # type: ignore[call-arg]
    hold: HoldSettings = HoldSettings()  # type: ignore[call-arg]
    ssh: SshSettings = SshSettings()  # type: ignore[call-arg]
    metrics: MetricsSettings = MetricsSettings()  # type: ignore[call-arg]
    notifications: NotificationSettings = NotificationSettings()  # type: ignore[call-arg]
    mail: MailSettings = MailSettings()  # type: ignore[call-arg]
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def set_sources(self, sources: Mapping[str, str]) -> Self:
        """Return these settings with the source of each value (section.name -> source)."""
        self._sources = dict(sources)
        return self

    def get_source(self, section: str, field: str) -> str:
        """Return the source of a value: default, file, environment or option."""
        return self._sources.get(f"{section}.{field}", "default")


def resolve_default_home() -> Path:
    """Return the state folder: HOLDFAST_HOME, else ~/.holdfast."""
    return Path(os.environ.get("HOLDFAST_HOME") or Path.home() / ".holdfast").absolute()


def load_settings(home: Path, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Load settings from `home`/holdfast.toml, then the environment, then `overrides` (section.name -> value)."""
    data = _load_settings_file(home / "holdfast.toml")
    sources = {
        f"{section}.{field}": "file" for section, table in data.items() if isinstance(table, dict) for field in table
    }
    for section, field in _list_fields():
        text = environ.get(f"HOLDFAST_{section}_{field}".upper())
        if text is not None:
            _get_or_create_table(data, section)[field] = _parse_env_value(section, field, text)
            sources[f"{section}.{field}"] = "environment"
    for key, value in (overrides or {}).items():
        section, field = key.split(".", 1)
        _get_or_create_table(data, section)[field] = value
        sources[key] = "option"
    try:
        return Settings.model_validate(data).set_sources(sources)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            raise build_unknown_setting_error(
                home / "holdfast.toml", first["loc"], get_setting_names_by_section()
            ) from None
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(
            msg("Setting {where}: {msg}", where=where, msg=first["msg"]),
            field=where,
            hint="See docs/reference/settings.md for all settings.",
        ) from None


def get_setting_names_by_section() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for section, field in _list_fields():
        found.setdefault(section, []).append(field)
    return found


def _load_settings_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(
            msg("Cannot read {path}: {error}", path=path, error=error), hint="Fix or move the file."
        ) from None


def _get_or_create_table(data: dict[str, Any], section: str) -> dict[str, Any]:
    found = data.setdefault(section, {})
    if not isinstance(found, dict):
        raise UserError(
            msg("Setting {section}: must be a table, not {found}", section=section, found=repr(str(found)[:50])),
            field=section,
            hint=msg("Write [{section}] on its own line, and its settings below.", section=section),
        )
    return found


def _list_fields() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for section, info in Settings.model_fields.items():
        assert isinstance(info.annotation, type)
        assert issubclass(info.annotation, SettingsSection)
        found.extend((section, field) for field in info.annotation.model_fields)
    return found


def _parse_env_value(section: str, field: str, text: str) -> Any:
    """Split a list at its commas; validation converts other types."""
    annotation = Settings.model_fields[section].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, SettingsSection)
    if "list" in str(annotation.model_fields[field].annotation):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
