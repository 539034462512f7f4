"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import home, job, live, log, log_live, login, schedule_form, schedules

# job comes last: its /jobs/{ref} takes what the others leave.
PAGES = (home, live, log, log_live, login, schedule_form, schedules, job)
