"""`ToolHost`: runs Kafka's command-line tools in one long-lived JVM."""

import contextlib
import shlex
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
JVM_FLAGS = ["-Xmx1g", "-XX:+ExitOnOutOfMemoryError", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
PROGRAM_FLAGS = [*JVM_FLAGS, "-Xmx256m", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
"""For programs that run in a JVM of their own."""


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    command: str
    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout, without those that are empty."""
        return [line for line in self.stdout.splitlines() if line.strip()]

    @property
    def rows(self) -> list[list[str]]:
        """The lines of stdout, each split at white space: a table, with any column widths."""
        return [line.split() for line in self.lines]


@dataclass
class ToolHost:
    """The long-lived JVM of ToolHost.java: a tool takes some 0.2 s in it, and 1.5 s in a JVM of its own."""

    libs: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def run(self, command: list[str], stdin: str, timeout_s: float) -> ToolResult:
        if self.process is None:
            self.process = self._start()
        assert self.process.stdin is not None
        request = struct.pack(">i", len(command)) + b"".join(map(block, [*command, stdin]))
        self.process.stdin.write(request)
        self.process.stdin.flush()
        deadline = _Deadline(self.process, timeout_s)
        with deadline:
            header = self._read(4)
            stdout, stderr = self._block(), self._block()
        if not header:
            self.close()
            pytest.fail(f"{command} gave no result within {timeout_s} s; its threads were:\n{deadline.threads}")
        code = struct.unpack(">i", header)[0]
        return ToolResult(command=shlex.join(command), code=code, stdout=stdout.decode(), stderr=stderr.decode())

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.kill()
            self.process.wait()
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def _start(self) -> subprocess.Popen[bytes]:
        tools_jar = next(jar for jar in self.libs.glob("kafka-tools-[0-9]*.jar"))
        command = ["java", *JVM_FLAGS, f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
        command += ["-cp", f"{self.libs}/*", str(HERE / "ToolHost.java"), str(tools_jar)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _read(self, size_bytes: int) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        return self.process.stdout.read(size_bytes)

    def _block(self) -> bytes:
        length = self._read(4)
        return self._read(struct.unpack(">i", length)[0]) if length else b""


class _Deadline:
    """Kills a JVM that has not finished after ``timeout_s``, so that a read from its pipe returns."""

    def __init__(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        self.threads = "unknown: the JVM had ended"
        self._process = process
        self._timer = threading.Timer(timeout_s, self._expire)

    def _expire(self) -> None:
        dump = subprocess.run(["jstack", str(self._process.pid)], capture_output=True, text=True)
        self.threads = dump.stdout
        self._process.kill()

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()
        self._timer.join()


def block(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded
