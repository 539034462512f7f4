"""What OpenPAI put around the commands of a job, put around them here: variables, files, runtime plugins."""

from .dress import dress_openpai
from .filling import openpai_filler
from .fitting import Company
from .variables import Crowd

__all__ = ["Company", "Crowd", "dress_openpai", "openpai_filler"]
