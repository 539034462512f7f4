"""The shapes of the REST API, each defined once: the server describes its answers and checks requests by them, the SDK
reads and sends them, the CLI prints them as JSON.

Answers are dataclasses. The text in a field's `Annotated` is its description; the default is what a client assumes when
the server does not send it. An enum in `Annotated` lists the values that this version knows; clients accept others too.
Times are UTC, durations seconds, sizes bytes.
"""
