"""What OpenPAI put around the commands of a job, put around them here: variables, files, runtime plugins."""

from .dress import dress_openpai
from .filling import openpai_filler

__all__ = ["dress_openpai", "openpai_filler"]
