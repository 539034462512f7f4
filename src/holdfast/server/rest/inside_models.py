"""What the API tells of programs inside tasks: their stacks."""

from __future__ import annotations

from pydantic import Field

from .models import Given


class FrameView(Given):
    function: str
    file: str
    line: int


class ThreadView(Given):
    id: int
    name: str
    active: bool = Field(description="It was on a CPU, or about to be.")
    owns_gil: bool
    frames: list[FrameView] = Field(description="The innermost first.")


class ProcessView(Given):
    pid: int = Field(description="As the task numbers it.")
    parent: int = Field(description="The same; 0: none of these.")
    command: str
    python: bool
    state: str = Field(description="running, sleeping, stopped, ...")
    waits_in: str = Field(description="The kernel's name for what it waits for; empty where that is not told.")
    threads: list[ThreadView] = Field(description="Of a Python program.")
    error: str | None = Field(description="Why there are none of a Python program.")


class StacksView(Given):
    job: str
    task: str
    processes: list[ProcessView] = Field(description="Parents before children.")
    left_out: int = Field(description="How many more there are.")
