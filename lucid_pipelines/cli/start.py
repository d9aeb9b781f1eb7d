"""Where ``lucid`` begins: a command is started without loading the other ones, which takes most of a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.lazy import COMMANDS, load
from lucid_pipelines.cli.output import print_error
from lucid_pipelines.domain.errors import LucidError


def main() -> None:
    """Run the command line; it ends with an ``ExitStatus``."""
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
        print_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        # `lucid logs JOB | head`: nobody listens any more; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitStatus.NOBODY_LISTENS)


if __name__ == "__main__":
    main()
