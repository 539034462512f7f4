"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import home, live, log, log_live, login, schedule_form, schedules

PAGES = (home, live, log, log_live, login, schedule_form, schedules)
