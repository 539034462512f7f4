"""Every module that declares addresses. Importing it makes the list of endpoints whole."""

from __future__ import annotations
