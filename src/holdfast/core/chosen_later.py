"""Placeholders for the address and the ports of a task that its engine chooses only when it starts.

They are part of variables and scripts; the engine replaces them where the task runs. They contain only characters that
no shell treats specially, like the values that replace them.
"""

from __future__ import annotations


def make_address_placeholder(member: int) -> str:
    """`member`: the position of the task in its gang; 0 if it was placed alone."""
    return f"@holdfast:{member}:address@"


def make_ports_placeholder(member: int, number: int) -> str:
    """Return the placeholder of all ports of a label, separated by commas. `number`: which label, from 0."""
    return f"@holdfast:{member}:ports:{number}@"


def make_first_port_placeholder(member: int, number: int) -> str:
    return f"@holdfast:{member}:port:{number}@"


def has_placeholder(text: str) -> bool:
    return "@holdfast:" in text
