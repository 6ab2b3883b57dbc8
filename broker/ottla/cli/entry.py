"""Where the ``ottla`` script begins: Ctrl-C while the command is still being imported ends it without a traceback."""


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from ottla.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        from ottla.cli.exit_codes import ExitCode

        return ExitCode.INTERRUPTED
