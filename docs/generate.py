"""Writes the pages that are generated from the code.

``cli.md`` is written from the commands, ``compatibility.md`` from the catalog of handlers and the message definitions,
``configuration.md`` from the tables of keys, ``metrics.md`` from the rows of metrics, ``states.md`` from the tables of
transitions.

``python docs/generate.py`` writes them; with ``--check`` it writes nothing and fails when one is out of date.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import click

from ottla.admin.metrics import SECTIONS as METRIC_SECTIONS
from ottla.cli.kubernetes.main import FROM_OTTLA
from ottla.cli.kubernetes.main import cli as kubectl_ottla
from ottla.cli.lazy import ExampleCommand
from ottla.cli.main import SECTIONS, cli
from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.key import ConfigKey, SupportLevel
from ottla.config.topic_keys import TOPIC_KEYS
from ottla.groups.classic.state import TRANSITIONS as CLASSIC_GROUP_TRANSITIONS
from ottla.groups.consumer.state import GROUP_TRANSITIONS as CONSUMER_GROUP_TRANSITIONS
from ottla.groups.consumer.state import MEMBER_TRANSITIONS
from ottla.groups.share.state import TRANSITIONS as SHARE_GROUP_TRANSITIONS
from ottla.groups.streams.state import GROUP_TRANSITIONS as STREAMS_GROUP_TRANSITIONS
from ottla.groups.streams.state import MEMBER_TRANSITIONS as STREAMS_MEMBER_TRANSITIONS
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, is_served_to
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.raft.quorum_state import TRANSITIONS as QUORUM_TRANSITIONS
from ottla.replication.isr.partition_isr import TRANSITIONS as ISR_TRANSITIONS
from ottla.replication.isr.partition_isr import IsrState
from ottla.share_partitions.share_partition_state import TRANSITIONS as SHARE_PARTITION_TRANSITIONS
from ottla.transactions.state import TRANSITIONS as TRANSACTION_TRANSITIONS
from ottla.wire.messages.registry import ApiKey, request_type

HERE = Path(__file__).parent
NOTICE = "<!-- Made by docs/generate.py; change the code, then run it. -->"

CLI_INTRODUCTION = """\
# The `ottla` command

Data goes to stdout, messages to stderr. `-o json`, `-o yaml`, `-o wide` and `-o name` change the format where a command
lists them. Destructive commands prompt on a terminal and require `--yes` elsewhere. `NO_COLOR` is honoured.

Brokers are found at `-b HOST:PORT`, else `$OTTLA_BOOTSTRAP`, else the cluster of `ottla up`, else `127.0.0.1:9092`.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | an error; stderr says what happened and what to do |
| 2 | the command line is wrong |
| 3 | the object does not exist |
| 4 | denied |
| 5 | no response: brokers cannot be reached, or time ran out |
| 10 | it exists and is not healthy |
| 130 | interrupted by Ctrl-C |
"""

KUBECTL_INTRODUCTION = """\
## On Kubernetes: `kubectl ottla`

`pip install ottla` puts the plugin where kubectl finds it. It uses kubectl's own context and permissions:
a user that may read and change the Cluster object may observe and control it. `-n`, `--context` and `--kubeconfig` are
kubectl's; `--cluster` names the Cluster where a namespace has several.

{commands}
are those of `ottla`, through a `kubectl port-forward` to each broker that they connect to: no listener has to be
reachable from outside. With TLS they authenticate with the Secret `CLUSTER-operator`, or with that of a User (`--user
alice`).

```sh
kubectl ottla status
kubectl ottla topic list
echo hello | kubectl ottla --user alice produce greetings
kubectl ottla consume greetings -n 1
```
"""

COMPATIBILITY_INTRODUCTION = """\
# Compatibility

Every API of Kafka 4.3 with the versions that are served, on the listeners of brokers and of controllers. ApiVersions
announces exactly these, and a test compares them with what a JVM Kafka 4.3.1 announces. Produce is announced from
version 0 on, as by Kafka, because librdkafka would not compress otherwise; GetTelemetrySubscriptions and PushTelemetry
where `ottla.client.metrics.receivers` names a receiver. Messages of all APIs and versions can be read and written;
`ottla` and the tests use them with other brokers.

{unserved}

| key | API | versions | brokers | controllers |
| --: | --- | --- | :-: | :-: |
{rows}

## Features

Levels that `kafka-features` can finalize; a broker that joins a cluster must support those that are finalized there.

| feature | levels |
| --- | --- |
{features}
"""

CONFIGURATION_INTRODUCTION = """\
# Configuration

Ottla reads Kafka's `server.properties`. A key that Kafka 4.3 does not know is kept and has no effect, as in Kafka; a
value that Kafka rejects is rejected with Kafka's message. The keys that Kafka knows have one of three support levels:

- **acted on**: has the same effect as in Kafka;
- **known**: accepted without effect; a warning is logged when its value is not the default;
- **rejected**: a start with it is an error, because ignoring it would drop a guarantee that you requested.

*Dynamic* keys may be changed while a broker runs (`kafka-configs --alter`), for one broker or for all of them.
"""

METRICS_INTRODUCTION = """\
# Metrics

`GET /metrics` of a node's admin port, in Prometheus' text format. Names are those that Strimzi's rules for the JMX
exporter give to Kafka's metrics, so that dashboards and alerts made for Kafka work; what Kafka has no name for starts
with `ottla_`. The metrics of Python's process (`process_*`) come in addition. Controllers without the broker's role
have no metrics of traffic, replicas, logs and groups; brokers without the controller's role none of the controller.
"""

STATES_INTRODUCTION = """\
# State diagrams

Each diagram is the table of transitions that the code checks: an edge that is missing here cannot happen.
"""


def _isr_transitions() -> dict[tuple[str, str], str]:
    """Return the edges of the ISR's diagram: its table has one row per event, and several lead to the same state."""
    edges: dict[tuple[str, str], list[str]] = {}
    for (before, event), after in ISR_TRANSITIONS.items():
        edges.setdefault((_isr_state(before), _isr_state(after)), []).append(event.value)
    return {edge: ", ".join(events) for edge, events in edges.items()}


def _isr_state(state: IsrState) -> str:
    return state.value.title().replace(" ", "")


STATE_MACHINES = (
    (
        "Classic groups",
        "The groups of Kafka's first rebalance protocol: `broker/ottla/groups/classic/state.py`. A group that is\n"
        "loaded from the log with members, or was a consumer group, starts as Stable.\n",
        CLASSIC_GROUP_TRANSITIONS,
    ),
    (
        "Consumer groups",
        "The groups of the protocol of KIP-848: `broker/ottla/groups/consumer/state.py`. The state is computed from\n"
        "the group's epoch, the epoch of its target assignment and its members; one request may go along several\n"
        "edges. A group that was a classic group starts with the members of that.\n",
        CONSUMER_GROUP_TRANSITIONS,
    ),
    (
        "Members of consumer groups",
        "The way of one member to its target assignment: `broker/ottla/groups/consumer/reconciliation.py`. A step is\n"
        "a heartbeat of the member. A partition is given to a member when no other member owns it, and a member owns\n"
        "it until its heartbeat no longer lists it.\n",
        {(before.name.title(), after.name.title()): event for (before, after), event in MEMBER_TRANSITIONS.items()},
    ),
    (
        "Share groups",
        "The groups of KIP-932: `broker/ottla/groups/share/state.py`. The state is computed from the members; several\n"
        "members may have a partition, so that none waits for another one.\n",
        SHARE_GROUP_TRANSITIONS,
    ),
    (
        "Share-partitions",
        "What the leader of a partition has for one share group:\n"
        "`broker/ottla/share_partitions/share_partition_state.py`. Records are acquired and acknowledged while it is\n"
        "Active. One that is Failed or Fenced is dropped; the next ShareFetch creates another.\n",
        SHARE_PARTITION_TRANSITIONS,
    ),
    (
        "Streams groups",
        "The groups of KIP-1071: `broker/ottla/groups/streams/state.py`. The state is computed from the topology, the\n"
        "group's epoch, the epoch of its target assignment and its members.\n",
        STREAMS_GROUP_TRANSITIONS,
    ),
    (
        "Members of streams groups",
        "The way of one member to its target assignment: `broker/ottla/groups/streams/reconciliation.py`. An active\n"
        "task is given to a member when no process has it, and no process has two copies of a task.\n",
        {
            (before.name.title(), after.name.title()): event
            for (before, after), event in STREAMS_MEMBER_TRANSITIONS.items()
        },
    ),
    (
        "Elections of the metadata quorum",
        "A voter in the election of the active controller: `broker/ottla/raft/quorum_state.py`. Transitions with *\n"
        "are on disk before they count. After a restart a voter continues as the file `quorum-state` says.\n",
        {
            (before.__name__.removesuffix("State"), after.__name__.removesuffix("State")): event
            for (before, after), event in QUORUM_TRANSITIONS.items()
        },
    ),
    (
        "The ISR of a partition, seen from its leader",
        "`broker/ottla/replication/isr/partition_isr.py`. While a change is pending (Expanding, Shrinking) the high\n"
        "watermark goes by the larger of the two sets. The controller decides; a leader that is behind waits for the\n"
        "metadata log and proposes nothing meanwhile.\n",
        _isr_transitions(),
    ),
)

TRANSACTION_STATES = {(before.label, after.label): event for (before, after), event in TRANSACTION_TRANSITIONS.items()}
STATES_BLOCK = re.compile(r"(<!-- states: made by docs/generate.py -->\n).*(<!-- end of states -->)", re.DOTALL)

SUPPORT_TITLES = {
    SupportLevel.ACTED_ON: ("acted on", ("key", "type", "default", "dynamic", "what it does")),
    SupportLevel.KNOWN: ("known, without effect", ("key", "default", "what it is for")),
    SupportLevel.REJECTED: ("rejected", ("key", "default", "why")),
}


def cli_page() -> str:
    """Return ``cli.md``: every command with its examples and options."""
    parts = [NOTICE, CLI_INTRODUCTION]
    for title, entries in SECTIONS.items():
        parts += [f"## {title}\n", *_commands("ottla", cli, entries)]
    parts.append(KUBECTL_INTRODUCTION.format(commands=", ".join(f"`{name}`" for name in FROM_OTTLA)))
    own = [name for name in kubectl_ottla.list_commands(click.Context(kubectl_ottla)) if name not in FROM_OTTLA]
    parts += _commands("kubectl ottla", kubectl_ottla, own)
    return "\n".join(parts)


def _commands(root: str, group: click.Group, names: Iterable[str]) -> Iterator[str]:
    context = click.Context(group)
    for name in names:
        command = group.get_command(context, name)
        assert command is not None
        yield from (_command_text(f"{root} {words}", leaf) for words, leaf in _leaves(name, command))


def _leaves(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _leaves(f"{words} {name}", inner)
    else:
        yield words, command


def _command_text(words: str, command: click.Command) -> str:
    examples = command.examples if isinstance(command, ExampleCommand) else ()
    if not examples:
        raise SystemExit(f"{words} has no example; give its command some")
    arguments = [parameter.make_metavar(click.Context(command)) for parameter in _arguments(command)]
    usage = " ".join([words, *arguments])
    lines = [f"### `{usage}`\n", f"{(command.help or '').strip()}\n", "```sh", *examples, "```\n"]
    lines += [f"- {_option_text(option)}" for option in command.params if isinstance(option, click.Option)]
    return "\n".join(lines).rstrip() + "\n"


def _arguments(command: click.Command) -> Iterator[click.Argument]:
    return (parameter for parameter in command.params if isinstance(parameter, click.Argument))


def _option_text(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if not option.is_flag:
        chosen = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
        names += f" {option.metavar or chosen}"
    text = f"`{names}`"
    if option.help:
        text += f": {' '.join(option.help.split())}"
    if option.show_default and not callable(option.default):
        text += f" Default: `{option.default}`."
    return text


def compatibility_page() -> str:
    """Return ``compatibility.md``: the served APIs, and those that are not."""
    requests = {key: request_type(key) for key in ApiKey}
    names = {key: request.__name__.removesuffix("Request") for key, request in requests.items()}
    rows = [
        _row(
            str(int(key)),
            names[key],
            _version_range(CATALOG[key].first_version, CATALOG[key].last_version),
            *("yes" if is_served_to(role, key) else "" for role in (ListenerRole.BROKER, ListenerRole.CONTROLLER)),
        )
        for key in sorted(CATALOG)
    ]
    unserved = ", ".join(f"{names[key]} ({int(key)})" for key in ApiKey if key not in CATALOG)
    features = [_row(f"`{name}`", _version_range(*levels)) for name, levels in sorted(SUPPORTED_FEATURES.items())]
    text = COMPATIBILITY_INTRODUCTION.format(
        unserved=f"Not served, and thus not announced: {unserved}." if unserved else "All of them are served.",
        rows="\n".join(rows),
        features="\n".join(features),
    )
    return f"{NOTICE}\n{text}"


def _version_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def configuration_page() -> str:
    """Return ``configuration.md``: the keys of brokers and topics by what this release does with them."""
    parts = [NOTICE, CONFIGURATION_INTRODUCTION]
    for owner, keys in (("Topics", TOPIC_KEYS), ("Brokers", BROKER_KEYS)):
        parts += [f"## {owner}: {title}\n\n{table}" for title, table in _tables(list(keys.values()))]
    return "\n".join(parts)


def _tables(keys: list[ConfigKey]) -> Iterator[tuple[str, str]]:
    order = list(SUPPORT_TITLES)
    for support, group in groupby(sorted(keys, key=lambda key: (order.index(key.support), key.name)), _support):
        title, columns = SUPPORT_TITLES[support]
        lines = [_row(*columns), _row(*["---"] * len(columns))]
        yield title, "\n".join(lines + [_key_row(key) for key in group]) + "\n"


def _support(key: ConfigKey) -> SupportLevel:
    return key.support


def _key_row(key: ConfigKey) -> str:
    name, default, reason = f"`{key.name}`", _default_text(key), key.reason.replace("|", "\\|")
    if key.support is not SupportLevel.ACTED_ON:
        return _row(name, default, reason)
    dynamic = {"read-only": "", "per-broker": "one", "cluster-wide": "all"}[key.dynamic.value]
    return _row(name, key.type.name.lower(), default, dynamic, reason)


def _default_text(key: ConfigKey) -> str:
    if not key.default:
        return ""
    largest = {str((1 << 31) - 1): "2³¹-1", str((1 << 63) - 1): "2⁶³-1"}
    # Lists break after a comma, so that a long one does not push the other columns out.
    shown = largest.get(key.default, key.default).replace(",", ", ")
    return f"`{shown}`" + (f" {key.unit}" if key.unit else "")


def metrics_page() -> str:
    """Return ``metrics.md``: the rows that the packages declare."""
    parts = [NOTICE, METRICS_INTRODUCTION]
    for section in METRIC_SECTIONS:
        lines = [_row("metric", "type", "labels", "what it says"), _row(*["---"] * 4)]
        for row in section.rows:
            labels = ", ".join(f"`{label}`" for label in row.labels)
            lines.append(_row(f"`{row.name}`", row.kind, labels, row.help.replace("|", "\\|")))
        parts.append(f"## {section.title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def states_page() -> str:
    """Return ``states.md``: a diagram for each state machine that has a table of its transitions."""
    return "\n".join([NOTICE, STATES_INTRODUCTION, *(_state_diagram(*machine) for machine in STATE_MACHINES)])


def _state_diagram(title: str, introduction: str, transitions: Mapping[tuple[str, str], str]) -> str:
    """Return a section with a diagram."""
    return "\n".join([f"## {title}\n", introduction, _diagram(transitions)])


def _diagram(transitions: Mapping[tuple[str, str], str]) -> str:
    """Return a Mermaid diagram; what leads from every state to one of them is a sentence below it."""
    states = dict.fromkeys(state for transition in transitions for state in transition)
    final = [state for state in states if len({transitions.get((other, state), other) for other in states}) == 1]
    lines = [
        f"    {before} --> {after}: {event}" for (before, after), event in transitions.items() if after not in final
    ]
    from_anywhere = [f"Every state may become **{state}**: {transitions[state, state]}.\n" for state in final]
    diagram = "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(states))}", *lines, "```\n"])
    return "\n".join([diagram, *from_anywhere])


def transactions_page() -> str:
    """Return ``transactions.md``, which is written by hand, with its diagram from the table in the code."""
    text = (HERE / "transactions.md").read_text(encoding="utf-8")
    return STATES_BLOCK.sub(lambda match: f"{match[1]}{_diagram(TRANSACTION_STATES)}{match[2]}", text)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` compare them; return the exit code."""
    generated = {
        "cli.md": cli_page(),
        "compatibility.md": compatibility_page(),
        "configuration.md": configuration_page(),
        "metrics.md": metrics_page(),
        "states.md": states_page(),
        "transactions.md": transactions_page(),
    }
    pages = {HERE / name: text for name, text in generated.items()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if arguments == ["--check"]:
            sys.stderr.write(f"docs/{path.name} is out of date; run: python docs/generate.py\n")
        else:
            path.write_text(pages[path], encoding="utf-8")
    return 1 if stale and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
