"""From a launch line to the program it starts: shell scripts, launchers, batch options, entry points."""
