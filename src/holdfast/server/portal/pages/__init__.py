"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import (
    admin,
    audit,
    calls,
    debugger,
    groups,
    home,
    installation,
    keys,
    live,
    log,
    log_live,
    login,
    me,
    new_job,
    notifications,
    old_addresses,
    schedule_form,
    schedules,
    settings,
    stacks,
    terminal,
    token_code,
    tokens,
    translation,
)
from .job import actions as job_acts
from .job import holds as job_holds
from .job import listing as job_list
from .job import page as job

# new_job comes first, job last: its /jobs/{ref} takes what the others leave.
PAGES = (
    new_job,
    admin,
    audit,
    calls,
    debugger,
    groups,
    home,
    job_acts,
    job_holds,
    job_list,
    keys,
    live,
    log,
    log_live,
    login,
    me,
    notifications,
    old_addresses,
    installation,
    schedule_form,
    schedules,
    settings,
    stacks,
    terminal,
    token_code,
    tokens,
    translation,
    job,
)
