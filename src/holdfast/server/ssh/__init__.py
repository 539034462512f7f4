"""The SSH gateway: `ssh JOB.TASK@host` opens a shell in a task, with any image."""
