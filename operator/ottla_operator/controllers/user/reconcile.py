"""Reconciles one User: observe, plan, execute, observe again."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ottla_operator.controllers.error_results import EXPECTED_ERRORS, readiness_of_error
from ottla_operator.controllers.executor import Execution, execute_for_user
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.cluster_secrets import clients_ca_secret, nodes_secret
from ottla_operator.model.conditions import Held, Reached, Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.secret import Secret
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import credential_of
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.user import UserStep
from ottla_operator.planning.user.plan import Draw, ObservedUser, plan_user, plan_user_deletion, reserved_principal
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.secret_store import SecretStore
from ottla_operator.ports.user_admin import UserDescription

if TYPE_CHECKING:
    from ottla_operator.model.certificates import Leaf

_ROUNDS_MAX = 3

FindAccess = Callable[[], Awaitable[ClientAccess | Rejected]]
Keep = Callable[[Document], Awaitable[None]]


async def reconcile_user(
    user: User,
    broker: BrokerAdmin,
    secrets: SecretStore,
    find_access: FindAccess,
    *,
    keep: Keep,
    super_users: Collection[str],
    draw: Draw,
    now: str,
    cluster: Cluster | None = None,
    cluster_secrets: SecretStore | None = None,
    claimed_by: ObjectKey | None = None,
    description: UserDescription | None = None,
    dry_run: bool = False,
) -> ReconcileResult:
    """Bring the user to its spec, as far as brokers allow.

    Args:
        user: the manifest.
        broker: the brokers of the cluster.
        secrets: the store of the user's Secret.
        find_access: finds the listener of the cluster for the user's type of authentication.
        keep: writes status fields before the first step, for an operator that is killed after that step.
        super_users: principals that no manifest may have.
        draw: see `plan_user`.
        now: see `plan_user`.
        cluster: the user's cluster; None if only its address is known.
        cluster_secrets: holds the Secrets of ``cluster``.
        claimed_by: see `plan_user`.
        description: the brokers' description of the user, a moment old; None: it is requested.
        dry_run: plan only.
    """
    access = await _access(user, super_users, find_access)
    if isinstance(access, ReconcileResult):
        return access
    if not (dry_run or user.is_paused) and claimed_by is None and user.known_principal is None:
        await keep({"principal": user.principal})
    done: tuple[Step, ...] = ()
    facts: Document = {}
    for _ in range(_ROUNDS_MAX):
        try:
            observed = await _observe(user, broker, secrets, description)
            description = None
            if cluster is not None and not isinstance(access, Rejected):
                observed = await _with_certificate(user, observed, cluster, cluster_secrets, now)
        except EXPECTED_ERRORS as error:
            return ReconcileResult(readiness_of_error(error, f"describe user {user.name}"), facts, done)
        facts = _facts(user, observed, secrets)
        plan = plan_user(user, observed, access, draw=draw, now=now, claimed_by=claimed_by)
        if isinstance(plan.obstacle, Rejected) and plan.obstacle.reason == "UserClaimedElsewhere":
            return ReconcileResult(plan.obstacle, {}, done)
        if not plan.steps:
            reached = plan.obstacle or _reached(user, observed)
            return ReconcileResult(reached, facts, done, wake_at=_end_of_overlap(user, observed))
        outdated = _outdated_trust(user, observed, access)
        if (unchanged := _without_execution(user, plan, facts, outdated, dry_run=dry_run)) is not None:
            return unchanged
        execution = await execute_for_user(_steps(plan), broker, secrets)
        done += execution.done
        if execution.stopped is not None:
            return ReconcileResult(_with_impact(execution.stopped, execution, outdated), facts, done)
    message = f"brokers accepted the changes of user {user.name} and do not show all of them yet"
    return ReconcileResult(Waiting("MetadataNotPropagated", message), facts, done)


async def _access(
    user: User, super_users: Collection[str], find_access: FindAccess
) -> ClientAccess | Rejected | ReconcileResult:
    """Return the user's access to the cluster, or a result if it has none or it could not be found."""
    if (rejection := reserved_principal(user, super_users)) is not None:
        return ReconcileResult(rejection, {}, is_seen=False)
    try:
        return await find_access()
    except EXPECTED_ERRORS as error:
        return ReconcileResult(readiness_of_error(error, f"find the listener of user {user.name}"), {}, is_seen=False)


def _outdated_trust(user: User, observed: ObservedUser, access: ClientAccess | Rejected) -> str | None:
    """Return the impact of an outdated trust in the user's Secret, for the message of what delays its write."""
    secret = observed.secret
    if secret is None or not secret.belongs_to(user.metadata) or isinstance(access, Rejected):
        return None
    if secret.entries.get("ca.crt") == access.ca_pem:
        return None
    return (
        f"ca.crt of Secret {secret.name} is outdated, and its clients cannot connect once {user.cluster} has replaced "
        "its authority: let the operator write the Secret before"
    )


def _with_impact(stopped: Waiting | Rejected, execution: Execution, outdated: str | None) -> Waiting | Rejected:
    """Return ``stopped`` with the impact of an ``outdated`` Secret, unless that was written before."""
    if outdated is None or any(isinstance(it, WriteSecret) for it in execution.done):
        return stopped
    return replace(stopped, message=f"{stopped.message}; {outdated}")


def _without_execution(
    user: User, plan: Plan, facts: Document, outdated: str | None, *, dry_run: bool
) -> ReconcileResult | None:
    """Return the result of a plan that must not be executed; None if it may."""
    if dry_run:
        return ReconcileResult(Waiting("DryRun", "nothing was changed"), facts, planned=plan.steps)
    if user.is_paused:
        steps = "; ".join(map(str, plan.steps))
        message = "; ".join(filter(None, [f"spec.paused is true; next: {steps}", outdated]))
        return ReconcileResult(Held("Paused", message), facts)
    return None


async def delete_user(
    user: User,
    broker: BrokerAdmin,
    secrets: SecretStore,
    *,
    heir: ObjectKey | None = None,
    description: UserDescription | None = None,
) -> ReconcileResult:
    """Execute the steps before the User object may be removed; `Reached` if it may. See `reconcile_user`."""
    try:
        observed = await _observe(user, broker, secrets, description)
    except EXPECTED_ERRORS as error:
        return ReconcileResult(readiness_of_error(error, f"describe user {user.name}"), {})
    execution = await execute_for_user(_steps(plan_user_deletion(user, observed, heir=heir)), broker, secrets)
    if execution.stopped is not None:
        return ReconcileResult(execution.stopped, {}, execution.done)
    if heir is not None:
        return ReconcileResult(Reached("HandedOver", f"user {user.name} stays, for {heir}"), {}, execution.done)
    return ReconcileResult(
        Reached("Deleted", f"user {user.name} has no password, no rule and no limit"), {}, execution.done
    )


async def delete_user_secret(user: User, secrets: SecretStore, reason: Reached) -> ReconcileResult:
    """Delete the Secret, if nothing is to be removed from a cluster because of ``reason``."""
    try:
        secret = await secrets.read(user.metadata.name)
    except EXPECTED_ERRORS as error:
        return ReconcileResult(readiness_of_error(error, f"read secret {user.metadata.name}"), {})
    if secret is None or not secret.belongs_to(user.metadata):
        return ReconcileResult(reason, {})
    step = DeleteSecret(secret.name)
    try:
        await secrets.delete(secret.name)
    except EXPECTED_ERRORS as error:
        return ReconcileResult(readiness_of_error(error, str(step)), {})
    return ReconcileResult(reason, {}, (step,))


def _steps(plan: Plan) -> tuple[UserStep, ...]:
    return cast(tuple[UserStep, ...], plan.steps)


async def _observe(
    user: User, broker: BrokerAdmin, secrets: SecretStore, description: UserDescription | None
) -> ObservedUser:
    given = user.password_from
    return ObservedUser(
        description=description or (await broker.describe_users([user.name]))[user.name],
        secret=await secrets.read(user.metadata.name),
        given_password=None if given is None else await secrets.read_entry(given.name, given.key),
    )


async def _with_certificate(
    user: User, observed: ObservedUser, cluster: Cluster, cluster_secrets: SecretStore | None, now: str
) -> ObservedUser:
    if not user.has_certificate:
        return observed
    assert cluster_secrets is not None, "a cluster comes with the store of its Secrets"
    return replace(observed, certificate=await _certificate(user, observed.secret, cluster_secrets, cluster, now))


async def _certificate(
    user: User, found: Secret | None, secrets: SecretStore, cluster: Cluster, now: str
) -> "Leaf | Waiting | None":
    if cluster.tls is None:
        return None
    # Imported here: the library is slow to load.
    from ottla_operator.model.certificates import CertificateIssuer
    from ottla_operator.planning.user.certificate import user_certificate

    return user_certificate(
        user,
        found,
        clients_ca=await secrets.read(clients_ca_secret(cluster.name)),
        nodes=await secrets.read(nodes_secret(cluster.name)),
        wanted=cluster.tls.clients_ca,
        now=now,
        issuer=CertificateIssuer(),
    )


def _facts(user: User, observed: ObservedUser, secrets: SecretStore) -> Document:
    credential = credential_of(observed.secret) if user.has_password else None
    return {
        "principal": user.principal,
        "secret": secrets.location(user.metadata.name),
        "rules": len(observed.description.acls or ()),
        **({} if credential is None else {"saslMechanism": credential.mechanism.mechanism_name}),
    }


def _end_of_overlap(user: User, observed: ObservedUser) -> str:
    """Return when the previous password has to go; "" without one."""
    credential = credential_of(observed.secret) if user.has_password else None
    return "" if credential is None else credential.previous_until


def _reached(user: User, observed: ObservedUser) -> Reached:
    rules, limits = len(observed.description.acls or ()), len(observed.description.quotas)
    message = f"{user.principal} ({user.authentication}): {rules} rules, {limits} limits"
    # The wait for the end of an overlap is no progress: tools that wait for the object would time out.
    if end := _end_of_overlap(user, observed):
        message += f"; the previous password is valid until {end}"
    return Reached("AsSpecified", message)
