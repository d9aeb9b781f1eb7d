"""Where ``lucid`` begins: a command is started without loading the other ones, which takes most of a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from lucid_pipelines.cli.lazy import COMMANDS, load
from lucid_pipelines.cli.output import errors, one_line
from lucid_pipelines.domain.errors import LucidError


def main() -> None:
    """Run the command line. Exit status: 0 done, 2 wrong input, 4 not found, 5 wrong state, 6 something outside."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in COMMANDS:
        guarded(lambda: load(name)(args=sys.argv[2:], prog_name=f"lucid {name}"))
    else:
        from lucid_pipelines.cli.main import app  # help, version, a command after options, a wrong name

        guarded(app)


def guarded(run: Callable[[], object]) -> None:
    """Run a command; its errors become one line and an exit status."""
    try:
        run()
    except LucidError as error:
        errors.print("[bold red]error[/bold red]", one_line(str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # `lucid logs JOB | head`: nobody listens any more; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
