"""``ottla export``: the manifests of the topics and users of a running cluster, for the operator to adopt."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import RemoteBrokers, ask_brokers, bootstrap_option, timeout_option
from ottla.cli.output import talk
from ottla.cli.quota import entity_in_words
from ottla.quoting import escape_unprintable

if TYPE_CHECKING:
    from ottla.cli.cluster_contents import Principals
    from ottla.client.admin import AdminClient
    from ottla_operator.planning.export.exported import Destination, Exported
    from ottla_operator.planning.export.topics import TopicSource

DEFAULT_CLUSTER = "ottla"
"""The name of the cluster of `ottla up`."""
_RESOURCES = {"topic": "topics.ottla.dev", "user": "users.ottla.dev"}
_HEAD = """\
Topics and Users of the brokers at {bootstrap}, by ottla export.
Their adoption changes nothing: `ottla apply -b ADDRESS --dry-run -f FILE` shows it.
Configs are those that are set on a topic itself; internal topics are left out."""
_ABOUT_PASSWORDS = """\
Brokers return no password. Until its Secret exists, a User waits (PasswordMissing): rules and limits are managed,
and its credential stays as it is. Write the password that its clients have, so that they notice nothing:
  printf %s "$PASSWORD" | kubectl create secret generic SECRET --from-file=password=/dev/stdin"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Managed:
    """What has an object already, and is not exported."""

    topics: frozenset[str] = frozenset()
    principals: frozenset[str] = frozenset()
    names: dict[str, frozenset[str]] = field(default_factory=lambda: dict.fromkeys(_RESOURCES, frozenset()))
    """Names of objects in the namespace, by kind."""


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla export -b kafka.example:9092 --cluster demo > demo.yaml",
        "ottla export --kind topic --topics 'orders[.].*' --topics payments",
    ],
)
@click.option("--topics", "patterns", multiple=True, metavar="REGEX", help="Only topics whose whole name matches one.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(list(_RESOURCES)), help="Only this kind.  [default: both]"
)
@click.option("--cluster", metavar="NAME", help=f"Of the Cluster.  [default: kubectl ottla's, or {DEFAULT_CLUSTER}]")
@click.option("--namespace", metavar="NAME", help="Of the objects.  [default: of kubectl ottla's Cluster, or none]")
@bootstrap_option
@timeout_option
@click.pass_context
def export(
    context: click.Context,
    *,
    patterns: tuple[str, ...],
    kinds: tuple[str, ...],
    cluster: str | None,
    namespace: str | None,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Write manifests of the topics and users of a running cluster, which the operator adopts without a change.

    Brokers show only topics and entries that the user may describe: use an administrator, such as a super user. What no
    manifest can have is named on stderr, and in comments of the output.
    """
    from ottla_operator.planning.export.topics import export_topic
    from ottla_operator.planning.export.users import export_users

    wanted, chosen = _compiled(patterns), kinds or tuple(_RESOURCES)
    remote = context.obj if isinstance(context.obj, RemoteBrokers) else None
    destination = _destination(remote, cluster, namespace)
    managed = _Managed() if remote is None else _managed(remote, chosen, destination.namespace)

    async def read(admin: "AdminClient") -> "tuple[list[TopicSource], Principals | None]":
        from ottla.cli.cluster_contents import read_principals, read_topics

        described = [it for it in await admin.list_topics() if _matches(it.name, wanted)] if "topic" in chosen else []
        found = await read_topics(admin, described)
        for name in sorted({it.name for it in described} - {it.name for it in found}):
            talk(f"topic {name} was deleted meanwhile, and is left out")
        return found, await read_principals(admin) if "user" in chosen else None

    topics, principals = ask_brokers(bootstrap, timeout_s, read)
    new_topics = [it for it in topics if it.name not in managed.topics]
    names = _topic_names([it.name for it in new_topics], managed)
    exported = [export_topic(it, names[it.name], destination) for it in new_topics]
    left_out = [f"{len(topics) - len(new_topics)} topics"]
    if principals is not None:
        users = [it for it in principals.users if it.principal not in managed.principals]
        exported += export_users(users, destination, super_users=principals.super_users, taken=managed.names["user"])
        exported += _other_quotas(principals)
        left_out.append(f"{len(principals.users) - len(users)} users")
        if not principals.has_authorizer:
            talk("brokers have no authorizer: users have no rules")
    if remote is not None:
        talk(f"left out, because they have an object: {', '.join(left_out)}")
    _tell(exported)
    click.echo("\n".join(_text(exported, bootstrap)), nl=bool(exported))


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise click.BadParameter(
            f"{error.pattern!r} is no regular expression: {error}", param_hint="--topics"
        ) from None


def _matches(name: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return not patterns or any(pattern.fullmatch(name) for pattern in patterns)


def _destination(remote: RemoteBrokers | None, cluster: str | None, namespace: str | None) -> "Destination":
    from ottla_operator.model.schema import is_name
    from ottla_operator.planning.export.exported import Destination

    for option, given in (("--cluster", cluster), ("--namespace", namespace)):
        if given is not None and not (is_name(given) and len(given) <= 63):
            raise click.BadParameter(f"{given!r} is no name of a Kubernetes object", param_hint=option)
    if remote is None:
        return Destination(cluster=cluster or DEFAULT_CLUSTER, namespace=namespace or "")
    here, name = remote.cluster_identity()
    return Destination(cluster=cluster or name, namespace=namespace or here, cluster_namespace=here)


def _managed(remote: RemoteBrokers, kinds: Collection[str], namespace: str) -> _Managed:
    """Return what the Topics and Users of the Cluster have: a second object for it would be rejected."""
    from ottla_operator.model.manifest import ObjectKey, referred_cluster
    from ottla_operator.model.topic import Topic
    from ottla_operator.model.user import User

    key = ObjectKey("Cluster", *remote.cluster_identity())
    found = {kind: remote.objects(_RESOURCES[kind]) if kind in kinds else [] for kind in _RESOURCES}
    members = {kind: [it for it in objects if referred_cluster(it) == key] for kind, objects in found.items()}
    return _Managed(
        topics=frozenset(Topic.parse(it).topic_name for it in members["topic"]),
        principals=frozenset(User.parse(it).principal for it in members["user"]),
        names={kind: frozenset(_names_in(namespace, objects)) for kind, objects in found.items()},
    )


def _names_in(namespace: str, objects: Sequence[dict[str, Any]]) -> Iterator[str]:
    return (it["metadata"]["name"] for it in objects if it["metadata"]["namespace"] == namespace)


def _topic_names(topics: Collection[str], managed: _Managed) -> dict[str, str]:
    from ottla_operator.planning.export.names import object_names

    return object_names(topics, taken=managed.names["topic"])


def _other_quotas(principals: "Principals") -> "Iterator[Exported]":
    """Yield the limits that are not of one user, of which no object exists."""
    from ottla_operator.planning.export.exported import Exported

    shown = [
        f"{entity_in_words(entity)}: {key}={limit:g}"
        for entity, limits in principals.other_quotas.items()
        for key, limit in limits.items()
    ]
    if shown:
        warning = f"{len(shown)} quotas of client ids, addresses and defaults have no manifest, and stay as they are"
        yield Exported(document=None, hints=tuple(sorted(shown)), warnings=(warning,))


def _tell(exported: "Sequence[Exported]") -> None:
    for warning in (it for one in exported for it in one.warnings):
        talk(f"warning: {escape_unprintable(warning)}")
    count = sum(one.document is not None for one in exported)
    talk(f"{count} manifests" if count else "there is nothing to export")


def _text(exported: "Sequence[Exported]", bootstrap: str) -> Iterator[str]:
    """Yield the lines of the output; comments about what has no manifest are at its end."""
    from ottla.cli.yaml_form import to_yaml

    if not exported:
        return
    yield from _comments(_HEAD.format(bootstrap=bootstrap).splitlines())
    if any("password" in one.document["spec"].get("authentication", {}) for one in exported if one.document):
        yield from _comments(_ABOUT_PASSWORDS.splitlines())
    for one in exported:
        if one.document is not None:
            yield "---"
            yield from _comments([*(f"warning: {it}" for it in one.warnings), *one.hints])
            yield to_yaml(one.document).rstrip("\n")
    for one in exported:
        if one.document is None:
            yield from _comments([*(f"warning: {it}" for it in one.warnings), *(f"  {it}" for it in one.hints)])


def _comments(lines: Sequence[str]) -> Iterator[str]:
    # A line break in a name of the cluster must not end the comment.
    return (f"# {escape_unprintable(line)}" for line in lines)
