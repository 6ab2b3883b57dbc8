"""Entries and Secrets of users in the cluster, compared with their objects: all of them, and no others."""

from collections.abc import Iterator

from operator_simulation.scenarios import Scenario
from operator_simulation.store import Store
from ottla.metadata.image import MetadataImage
from ottla.sasl.scram import ScramCredential, credential, salted_password
from ottla_operator.adapters.kubernetes.secret_store import secret_of
from ottla_operator.model.user_secret import credential_of


def user_differences(scenario: Scenario, image: MetadataImage, store: Store) -> Iterator[str]:
    """Describe the differences from the Users of ``scenario`` at the end."""
    wanted, names = scenario.users_wanted.values(), {it.metadata.name for it in scenario.users_asked}
    entries, asked = set(image.acls.by_id.values()), {acl for user in wanted for acl in user.acls}
    if entries != asked:
        yield f"entries {sorted(entries - asked)} too many, {sorted(asked - entries)} missing"
    limits = {frozenset({("user", user.name)}): dict(user.quotas) for user in wanted if user.quotas}
    there = {entity: dict(it) for entity, it in image.client_quotas.entities.items()}
    if there != limits:
        yield f"limits {sorted(map(str, there.values()))} instead of {sorted(map(str, limits.values()))}"
    kept = {(str(user.name), int(user.mechanism)): it for user, it in image.scram.credentials.items()}
    if unknown := {name for name, _ in kept} - {user.name for user in wanted}:
        yield f"passwords of {', '.join(sorted(unknown))}"
    if left := {name for name in names - scenario.users_wanted.keys() if store.secret(name) is not None}:
        yield f"secrets {', '.join(sorted(left))} without an owner"
    for user in wanted:
        if not _can_authenticate(user.metadata.name, user.name, kept, store):
            yield f"the secret {user.metadata.name} does not let {user.name} in"


def _can_authenticate(secret_name: str, user: str, kept: dict[tuple[str, int], ScramCredential], store: Store) -> bool:
    secret = store.secret(secret_name)
    known = None if secret is None else credential_of(secret_of(secret))
    there = None if known is None else kept.get((user, int(known.mechanism)))
    if known is None or there is None or there.iterations != known.iterations:
        return False
    salted = salted_password(known.mechanism, known.password, there.salt, there.iterations)
    made = credential(known.mechanism, salted, there.salt, there.iterations)
    return (made.stored_key, made.server_key) == (there.stored_key, there.server_key)
