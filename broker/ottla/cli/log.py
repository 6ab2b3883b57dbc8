"""``ottla log``: dump the files of a log."""

import codecs
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import ExampleCommand
from ottla.cli.output import talk
from ottla.errors import OttlaError

DUMPABLE = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.checkpoint", "*-checkpoint")
NATURE_SIZE_BYTES = 512
NAMED_BY_OFFSET = (".log", ".index", ".timeindex")
# Other files of a log directory, which are not dumped.
PLAIN = {
    "meta.properties": "text with the node that the directory belongs to",
    "partition.metadata": "text with the topic id of the partition",
    ".lock": "empty: a running node locks it",
    ".kafka_cleanshutdown": "text that a node writes when it has closed every log",
}


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
    """Dump segments, indexes, snapshots and checkpoints, as kafka-dump-log --print-data-log does.

    A folder means all such files in it.
    """
    from ottla.log.dump import decode_cluster_metadata, decode_text, explain_file
    from ottla.runtime.disk import OsDisk

    decoder = decode_cluster_metadata if cluster_metadata else decode_text
    disk = OsDisk(lambda completion: completion())
    exit_code = ExitCode.OK
    try:
        for file in _expanded(files):
            if not _is_dumpable(file):
                talk(f"error: {file} is no file of a log but {_nature(file)}; supported are {', '.join(DUMPABLE)}")
                exit_code = ExitCode.ERROR
                continue
            try:
                for line in explain_file(disk, str(file), print_data=not no_data, decoder=decoder):
                    click.echo(line)
            except BrokenPipeError:
                raise
            except OSError as error:
                talk(f"error: cannot read {error.filename or file}: {error.strerror or error}")
                exit_code = ExitCode.ERROR
            except OttlaError as error:
                talk(f"error: {error}")
                exit_code = ExitCode.ERROR
    finally:
        disk.close()
    return exit_code


def _is_dumpable(file: Path) -> bool:
    named_by_offset = file.suffix in NAMED_BY_OFFSET
    return file.stem.isdecimal() if named_by_offset else any(fnmatch(file.name, pattern) for pattern in DUMPABLE)


def _nature(file: Path) -> str:
    """Return a short description of a file that cannot be dumped."""
    if file.name in PLAIN:
        return PLAIN[file.name]
    if file.suffix in NAMED_BY_OFFSET:
        return f"a {file.suffix} whose name is not its base offset"
    try:
        with file.open("rb") as stream:
            start = stream.read(NATURE_SIZE_BYTES)
    except OSError as error:
        return f"a file that cannot be read ({error.strerror})"
    if not start:
        return "an empty file"
    try:
        # The last character may be incomplete at the end of the bytes read.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "binary data of another kind"
    return "binary data of another kind" if b"\0" in start else "text"


def _expanded(files: tuple[Path, ...]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(found for pattern in DUMPABLE for found in file.glob(pattern))
        else:
            yield file
