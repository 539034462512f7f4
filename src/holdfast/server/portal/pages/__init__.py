"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import (
    admin,
    groups,
    home,
    job,
    job_acts,
    job_list,
    keys,
    live,
    log,
    log_live,
    login,
    me,
    new_job,
    old_lists,
    schedule_form,
    schedules,
    token_code,
    tokens,
)

# new_job comes first, job last: its /jobs/{ref} takes what the others leave.
PAGES = (
    new_job,
    admin,
    groups,
    home,
    job_acts,
    job_list,
    keys,
    live,
    log,
    log_live,
    login,
    me,
    old_lists,
    schedule_form,
    schedules,
    token_code,
    tokens,
    job,
)
