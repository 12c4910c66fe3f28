"""`python -m bayesfair` is the console command `bayesfair`."""

import sys

from bayesfair._interrupts import interrupts_held


def main() -> int:
    """`bayesfair.cli.main`, with Ctrl-C heard while that is imported, which takes a moment."""
    try:
        with interrupts_held():
            from bayesfair.cli import main as run
        return run()
    except KeyboardInterrupt:
        print("bayesfair: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
