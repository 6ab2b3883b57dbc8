"""Entry points of the scripts: Ctrl-C during the import of the command ends it without a traceback."""


def main() -> int:
    """Run the command line of ``ottla`` and return its exit code."""
    try:
        from ottla.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return _interrupted()


def kubectl_plugin() -> int:
    """Run the command line of ``kubectl ottla`` and return its exit code."""
    try:
        from ottla.cli.kubernetes.main import main as run

        return run()
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    from ottla.cli.exit_codes import ExitCode

    return ExitCode.INTERRUPTED
