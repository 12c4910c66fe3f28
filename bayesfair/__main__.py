"""`python -m bayesfair` is the console command `bayesfair`."""

from bayesfair.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
