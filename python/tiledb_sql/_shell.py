"""The command ``tiledb-sql``."""

import signal
import sys


def main() -> int:
    """Runs the shell with the arguments of the command line."""
    from ._engine import run_shell

    # The shell handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_shell(["tiledb-sql", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
