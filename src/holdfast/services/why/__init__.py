"""Why a job waits, failed or is slow: evidence gathered, judged and cached."""
