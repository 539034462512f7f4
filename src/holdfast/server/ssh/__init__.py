"""The SSH gateway: `ssh JOB.TASK@host` leads into a task, whatever its image holds."""
