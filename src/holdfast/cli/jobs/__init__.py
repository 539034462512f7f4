"""Commands about jobs and schedules."""
