"""The command `holdfast`, also run by `python -m holdfast`."""

import sys


def main() -> None:
    if sys.argv[1:2] == ["up"]:
        from holdfast.start_priority import raise_start_priority

        raise_start_priority()  # first of all: loading is most of a start
    from holdfast.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
