"""``ottla log``: the files of a log, explained."""

from collections.abc import Iterator
from pathlib import Path

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import ExampleCommand
from ottla.cli.output import talk

EXPLAINED = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.checkpoint", "*-checkpoint")


@click.group()
def log() -> None:
    """Read the files of a log."""


@log.command(
    cls=ExampleCommand,
    examples=[
        "ottla log dump data/flights-0/00000000000000000000.log | less",
        "ottla log dump --no-data data/flights-0            # every file of a partition",
        "ottla log dump --cluster-metadata data/__cluster_metadata-0/00000000000000000000.log",
    ],
)
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, readable=True, path_type=Path)
)
@click.option("--cluster-metadata", is_flag=True, help="Read the records as those of __cluster_metadata.")
@click.option("--no-data", is_flag=True, help="Only batches; not the records in them.")
def dump(*, files: tuple[Path, ...], cluster_metadata: bool, no_data: bool) -> int:
    """Explain segments, indexes, snapshots and checkpoints, as kafka-dump-log --print-data-log does.

    A folder stands for all such files in it.
    """
    from ottla.log.dump import decode_cluster_metadata, decode_text, explain_file
    from ottla.runtime.disk import OsDisk

    decoder = decode_cluster_metadata if cluster_metadata else decode_text
    disk = OsDisk(lambda completion: completion())
    exit_code = ExitCode.OK
    try:
        for file in _expanded(files):
            try:
                for line in explain_file(disk, str(file), print_data=not no_data, decoder=decoder):
                    click.echo(line)
            except BrokenPipeError:
                raise
            except OSError as error:
                talk(f"error: cannot read {error.filename or file}: {error.strerror or error}")
                exit_code = ExitCode.ERROR
    finally:
        disk.close()
    return exit_code


def _expanded(files: tuple[Path, ...]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(found for pattern in EXPLAINED for found in file.glob(pattern))
        else:
            yield file
