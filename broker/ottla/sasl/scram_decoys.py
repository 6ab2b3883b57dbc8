"""Decoy credentials: what SCRAM sends for unknown users, indistinguishable from the credentials of existing users.

Any client that reaches a port may start an exchange under any name, and receives a salt and a number of iterations. A
decoy must look like a real credential: the same on every node and after every restart, and of a form that users have.
So it is derived from the name and a secret that the cluster keeps in its metadata log (`ottla.metadata.scram`).

The secret is random and not derived from anything else, because every client can see what is derived from it. If it
were derived from a password (a node's own, or users' credentials), clients could try passwords offline; if it were
derived from the cluster's id, every client that ever connected would know it.

The form (iterations, length of the salt) is drawn by the name's digest from the forms of the mechanism's users, in
proportion to their number. When users change, the decoys of a few names change their form; with a single form, which
is the usual case, none do.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.sasl.scram import ITERATIONS_MIN, TOOLS_SALT, ScramCredential, ScramMechanism, new_salt

_DRAW_BITS: Final = 64


class CredentialForm(NamedTuple):
    """The properties of a credential that clients see; ``salt_bytes`` is 0 for salts of Kafka's tools."""

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = 0


def form_of(credential: ScramCredential) -> CredentialForm:
    is_of_tools = TOOLS_SALT.fullmatch(credential.salt) is not None
    return CredentialForm(credential.iterations, 0 if is_of_tools else len(credential.salt))


def decoy(
    mechanism: ScramMechanism, user: str, *, secret: bytes, forms: Mapping[CredentialForm, int]
) -> ScramCredential:
    """Return a credential that ``user`` might have; no password matches it.

    ``secret`` is the cluster's, of at most 64 bytes; ``forms`` says how many of the mechanism's credentials have which
    form. Without any, the decoy has the default form of Kafka's tools.
    """
    key = hashlib.blake2b(f"{mechanism.mechanism_name}\0{user}".encode(), key=secret).digest()
    number = int.from_bytes(key, "big")
    form = _draw(number >> 8 * len(key) - _DRAW_BITS, forms)
    salt = hashlib.shake_256(key).digest(form.salt_bytes) if form.salt_bytes else new_salt(lambda stop: number % stop)
    # No client can authenticate with these keys, and nothing computed with them is sent.
    keys = key[: mechanism.hash_bytes]
    return ScramCredential(salt, keys, keys, form.iterations)


def _draw(number: int, forms: Mapping[CredentialForm, int]) -> CredentialForm:
    """Return the form that ``number``, of 64 bits, selects. A small change of the counts changes few draws."""
    if len(forms) == 1:
        return next(iter(forms))
    place = number * sum(forms.values()) >> _DRAW_BITS
    for form, count in sorted(forms.items()):
        if place < count:
            return form
        place -= count
    return CredentialForm()
