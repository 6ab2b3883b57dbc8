"""CPU of server-side assignors for large groups, next to Kafka's own classes: a table on standard output.

    OTTLA_KAFKA_LIBS=DIR python -m benchmarks.assignors [--members 1000] [--partitions 10000] [--rounds 5]

Each group is assigned when it is new, and again when one in a hundred members has been replaced. The best round of each
figure counts. Kafka's is the elapsed time of one thread, in a JVM that has run every group a few times. A slice is the
work between two slice points of the assignor: nothing else runs on the loop meanwhile. Python's garbage collector is
off, as its full collections depend on everything else in a process.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.groups.assignors.range_assignor import RangeAssignor
from ottla.groups.assignors.types import Assignment, Assignor, GroupSpec, MemberSubscription, SubscriptionType
from ottla.groups.assignors.uniform_assignor import UniformAssignor
from ottla.types import Uuid, format_uuid

JAVA_PROGRAM: Final = Path(__file__).parent.parent / "tests/interop/AssignGroups.java"
TOPICS: Final = (10, 100, 1000)
REPLACED_OF: Final = 100


class Figures(NamedTuple):
    cpu_ms: float
    longest_slice_ms: float


def measured(assignor: Assignor, spec: GroupSpec) -> tuple[Assignment, Figures]:
    """Assign once; return the assignment and what it cost."""
    longest_ns = total_ns = 0
    steps = assignor.assign(spec)
    while True:
        started_ns = time.thread_time_ns()
        try:
            next(steps)
        except StopIteration as end:
            took_ns = time.thread_time_ns() - started_ns
            return end.value, Figures((total_ns + took_ns) / 1e6, max(longest_ns, took_ns) / 1e6)
        took_ns = time.thread_time_ns() - started_ns
        total_ns += took_ns
        longest_ns = max(longest_ns, took_ns)


def best(assignor: Assignor, spec: GroupSpec, rounds: int) -> tuple[Assignment, Figures]:
    runs = [measured(assignor, spec) for _ in range(rounds)]
    figures = [figures for _, figures in runs]
    return runs[0][0], Figures(min(each.cpu_ms for each in figures), min(each.longest_slice_ms for each in figures))


def new_group(source: random.Random, kind: SubscriptionType, members: int, topics: int, partitions: int) -> GroupSpec:
    """Return a group without assignment; members of a heterogeneous one each subscribe to four of five topics."""
    topic_ids = sorted(Uuid(source.randbytes(16)) for _ in range(topics))
    subscribed = frozenset(topic_ids)
    return GroupSpec(
        members=[
            MemberSubscription(
                member_id=format_uuid(Uuid(source.randbytes(16))),
                instance_id=None,
                topic_ids=subscribed
                if kind is SubscriptionType.HOMOGENEOUS
                else frozenset(source.sample(topic_ids, topics * 4 // 5)),
                assigned={},
            )
            for _ in range(members)
        ],
        subscription_type=kind,
        partition_counts=dict.fromkeys(topic_ids, partitions // topics),
    )


def next_group(source: random.Random, spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """Return the group with its assignment, after one in a hundred members was replaced by a new one."""
    members = []
    for number, member in enumerate(spec.members):
        is_new = number % REPLACED_OF == 0
        members.append(
            MemberSubscription(
                member_id=format_uuid(Uuid(source.randbytes(16))) if is_new else member.member_id,
                instance_id=None,
                topic_ids=member.topic_ids,
                assigned={} if is_new else assignment[member.member_id],
            )
        )
    return GroupSpec(members=members, subscription_type=spec.subscription_type, partition_counts=spec.partition_counts)


def as_line(assignor: Assignor, spec: GroupSpec) -> str:
    """Return a group as the Java program reads it."""
    indices = {topic_id: index for index, topic_id in enumerate(spec.partition_counts)}
    members: list[Any] = [
        [
            member.member_id,
            member.instance_id,
            sorted(indices[topic_id] for topic_id in member.topic_ids),
            {str(indices[topic_id]): sorted(partitions) for topic_id, partitions in member.assigned.items()},
        ]
        for member in spec.members
    ]
    topics = [[format_uuid(topic_id), count] for topic_id, count in spec.partition_counts.items()]
    return json.dumps(
        {"assignor": assignor.name, "type": spec.subscription_type.name, "topics": topics, "members": members}
    )


def kafka_ms(lines: list[str], rounds: int) -> list[float]:
    """Return the best milliseconds of Kafka's assignor for each group."""
    command = ["java", "-Xmx2g", "-cp", f"{os.environ['OTTLA_KAFKA_LIBS']}/*", str(JAVA_PROGRAM)]
    kafka = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines * rounds), stdout=subprocess.PIPE, text=True, check=True
    )
    took_ms = [int(line.split(" ", 1)[0]) / 1e6 for line in kafka.stdout.splitlines()]
    return [min(took_ms[index :: len(lines)]) for index in range(len(lines))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10_000, help="of all topics together")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    gc.disable()
    source = random.Random(1)
    labels: list[str] = []
    lines: list[str] = []
    ours: list[Figures] = []
    for topics in TOPICS:
        for kind in SubscriptionType:
            for assignor in (UniformAssignor(), RangeAssignor()):
                group = new_group(source, kind, arguments.members, topics, arguments.partitions)
                for state in ("new", "1 % replaced"):
                    print(f"{topics} topics, {kind.value}, {assignor.name}, {state}", file=sys.stderr)
                    assignment, figures = best(assignor, group, arguments.rounds)
                    labels.append(f"| {topics} | {kind.value} | {assignor.name} | {state} |")
                    lines.append(as_line(assignor, group))
                    ours.append(figures)
                    group = next_group(source, group, assignment)
    theirs = kafka_ms(lines, arguments.rounds) if "OTTLA_KAFKA_LIBS" in os.environ else [None] * len(lines)
    print("| topics | subscriptions | assignor | group | Ottla ms | longest slice ms | Kafka ms |")
    print("|-|-|-|-|-|-|-|")
    for label, figures, kafka in zip(labels, ours, theirs, strict=True):
        shown = "" if kafka is None else f"{kafka:.1f}"
        print(f"{label} {figures.cpu_ms:.1f} | {figures.longest_slice_ms:.2f} | {shown} |")


if __name__ == "__main__":
    main()
