"""The part of a debugger that its console and its port call."""


class Prompt:
    prompt: str
    timeout: float  # seconds to wait for a client; 0: for ever

    def show_prompt(self) -> None:
        raise NotImplementedError

    def show_place(self) -> None:
        raise NotImplementedError

    def tell_place(self) -> None:
        raise NotImplementedError
