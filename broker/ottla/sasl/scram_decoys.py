"""What SCRAM shows of a user that is not there: a made-up credential that looks like those of the others.

Whoever reaches a port may begin a login under any name, and sees a salt and a number of iterations. A made-up answer
must not be told from a real one: it has to be the same on every node, after every start, and of a form that users have.
So it follows from the name and a secret that the cluster keeps in its metadata log (`ottla.metadata.scram`).

The secret is random, and follows from nothing else, because its answers are shown to everybody: made from a password
(a node's own, or users' credentials) they would let anybody try passwords at leisure, and made from the cluster's id
they would be known to every client that was once let in.

The form, iterations and salt, is drawn by the name's digest from those of the mechanism's users, each as often as it is
there. Where users change, a few names change their form with them; with one form, which is the rule, none does.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.sasl.scram import ITERATIONS_MIN, TOOLS_SALT, ScramCredential, ScramMechanism, new_salt

_DRAW_BITS: Final = 64


class CredentialForm(NamedTuple):
    """What a login shows of a credential, but for the salt; ``salt_bytes`` is 0 for a salt as Kafka's tools make it."""

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = 0


def form_of(credential: ScramCredential) -> CredentialForm:
    is_of_tools = TOOLS_SALT.fullmatch(credential.salt) is not None
    return CredentialForm(credential.iterations, 0 if is_of_tools else len(credential.salt))


def decoy(
    mechanism: ScramMechanism, user: str, *, secret: bytes, forms: Mapping[CredentialForm, int]
) -> ScramCredential:
    """Return the credential that ``user`` might have; no password fits it.

    ``secret`` is the cluster's, of at most 64 bytes; ``forms`` says how many of the mechanism's credentials have which
    form. Without any, the default of Kafka's tools is shown.
    """
    key = hashlib.blake2b(f"{mechanism.mechanism_name}\0{user}".encode(), key=secret).digest()
    number = int.from_bytes(key, "big")
    form = _draw(number >> 8 * len(key) - _DRAW_BITS, forms)
    salt = hashlib.shake_256(key).digest(form.salt_bytes) if form.salt_bytes else new_salt(lambda stop: number % stop)
    # Nobody is let in by these, and nothing that is made with them is shown.
    keys = key[: mechanism.hash_bytes]
    return ScramCredential(salt, keys, keys, form.iterations)


def _draw(number: int, forms: Mapping[CredentialForm, int]) -> CredentialForm:
    """Return one of ``forms``; ``number``, of 64 bits, says which. Few draws change when the counts change a little."""
    if len(forms) == 1:
        return next(iter(forms))
    place = number * sum(forms.values()) >> _DRAW_BITS
    for form, count in sorted(forms.items()):
        if place < count:
            return form
        place -= count
    return CredentialForm()
