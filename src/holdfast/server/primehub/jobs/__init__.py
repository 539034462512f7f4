"""PrimeHub's jobs, schedules and logs."""
