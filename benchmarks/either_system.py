"""One node of either system, Ottla or JVM Kafka, formatted and started on the same server.properties."""

import base64
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import startup

SYSTEMS: Final = ("ottla", "kafka")
MECHANISM: Final = "SCRAM-SHA-512"
JVM_OPTIONS: Final = "-Xms1g -Xmx1g -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
_STOP_TIMEOUT_S: Final = 15
SCRAM_PROPERTIES: Final = f"""sasl.enabled.mechanisms={MECHANISM}
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
"""Of a listener named SASL; JVM Kafka needs the second line, and Ottla reads it."""


@contextmanager
def running(
    system: str,
    directory: Path,
    properties: str,
    *,
    port: int,
    user: str,
    password: str,
    libs: str | None = None,
    ottla_command: str = f"{sys.executable} -m ottla",
) -> Iterator[int]:
    """Format a directory with a SCRAM user and run its node until the end of the ``with``; give its process id.

    ``port`` is that of a listener in the clear; ``libs`` the folder with Kafka's jars, for the system "kafka".
    """
    config = directory / "server.properties"
    config.write_text(properties)
    java = ["java", *JVM_OPTIONS.split(), "-cp", f"{libs}/*"]
    ottla = shlex.split(ottla_command)
    tool = [*ottla, "format"] if system == "ottla" else [*java, "kafka.tools.StorageTool", "format"]
    run = [*ottla, "run", "-c"] if system == "ottla" else [*java, "kafka.Kafka"]
    # The first byte keeps the id from starting with a dash, which the tools parse as an option.
    cluster_id = base64.urlsafe_b64encode(b"\1" + os.urandom(15)).rstrip(b"=").decode()
    credential = ["--add-scram", f"{MECHANISM}=[name={user},password={password}]"]
    words = [*tool, "-t", cluster_id, "-c", str(config), "--standalone", *credential]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with startup.running(" ".join([*run, str(config)]), directory, port, stop_timeout_s=_STOP_TIMEOUT_S) as (pid, _):
        yield pid
