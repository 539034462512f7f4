"""Form fields of options for Slurm, of groups and instance types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.slurm_options import GRES_OPTION, QUEUE_OPTION_NAMES, SLURM_ENGINE, SLURM_OPTION_NAMES

from ...fields import Field, Section
from ...forms import Form
from ...visit import Visit


def build_slurm_sections(visit: Visit, note: str, names: Sequence[str] = QUEUE_OPTION_NAMES) -> tuple[Section, ...]:
    """Build the fields, if this server has the engine."""
    if SLURM_ENGINE not in visit.services.installation.engine.names:
        return ()
    _ = visit.translate_text
    fields = {
        "partition": Field("slurm.partition", _("Partition"), help=_("Or several, separated by commas.")),
        "account": Field("slurm.account", _("Account")),
        "qos": Field("slurm.qos", _("QOS")),
        "constraint": Field("slurm.constraint", _("Constraint"), help=_("Features that nodes must have.")),
        "reservation": Field("slurm.reservation", _("Reservation")),
        GRES_OPTION: Field(
            "slurm.gres",
            _("Generic resources (gres)"),
            example="gpu:a100:1",
            help=_("Of one task. A task with several SKUs gets them several times."),
        ),
    }
    return (Section("Slurm", tuple(fields[name] for name in names), note=note, folded=True),)


def make_slurm_values(options: Mapping[str, str]) -> dict[str, str]:
    return {f"slurm.{name}": options.get(name, "") for name in SLURM_OPTION_NAMES}


def read_slurm_fields(form: Form) -> dict[str, dict[str, str]]:
    """Return the field `slurm`; nothing if the form has no such fields."""
    names = [name for name in SLURM_OPTION_NAMES if form.get_all(f"slurm.{name}")]
    return {"slurm": {name: form.get_text(f"slurm.{name}") for name in names}} if names else {}
