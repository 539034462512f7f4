"""Jobs to start from."""

from pathlib import Path


def read_example(name: str) -> str:
    return (Path(__file__).parent / f"{name}.yaml").read_text()
