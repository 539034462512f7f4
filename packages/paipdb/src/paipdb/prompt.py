"""The interface of a debugger that its console and the debug server use."""


class SupportsPrompt:
    prompt: str
    timeout: float  # seconds to wait for a client; 0: no limit

    def show_prompt(self) -> None:
        raise NotImplementedError

    def show_location(self) -> None:
        """Write the current line as pdb shows it."""
        raise NotImplementedError

    def send_location_event(self) -> None:
        """Send an event with the current location to a client that wants events."""
        raise NotImplementedError
