"""Decoy credentials look like real ones: clients cannot find out which users exist."""

import re
from collections import Counter

import pytest

from ottla.sasl.scram import ScramCredential, ScramMechanism, new_salt
from ottla.sasl.scram_decoys import CredentialForm, decoy, form_of
from ottla.simulator.world.random_source import SeededRandom

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
NAMES = [f"user-{number}" for number in range(2_000)]
TOOLS, LIBRDKAFKA = CredentialForm(8192, 0), CredentialForm(10_000, 64)


def of(user: str, secret: bytes = b"secret", forms: dict[CredentialForm, int] | None = None) -> ScramCredential:
    return decoy(SHA_512, user, secret=secret, forms=forms or {TOOLS: 1})


def test_same_name_and_secret_give_the_same_decoy() -> None:
    assert of("eve") == of("eve")
    assert len({of(user).salt for user in NAMES}) == len(NAMES)
    assert of("eve").salt != of("eve", secret=b"another").salt
    assert of("eve").salt != decoy(SHA_256, "eve", secret=b"secret", forms={TOOLS: 1}).salt


@pytest.mark.parametrize(
    ("salt", "iterations", "form"),
    [
        pytest.param(bytes(64), 10_000, LIBRDKAFKA, id="bytes"),
        pytest.param(new_salt(SeededRandom(1).randrange), 8192, TOOLS, id="tools"),
        pytest.param(b"z" * 26, 4096, CredentialForm(4096, 0), id="as-long-as-tools-make-them"),
        pytest.param(b"z" * 27, 4096, CredentialForm(4096, 27), id="longer"),
        pytest.param(b"A0", 4096, CredentialForm(4096, 2), id="capitals"),
    ],
)
def test_form_is_what_a_client_sees(salt: bytes, iterations: int, form: CredentialForm) -> None:
    assert form_of(ScramCredential(salt, b"stored", b"server", iterations)) == form


@pytest.mark.parametrize("forms", [{}, {TOOLS: 3}, {LIBRDKAFKA: 1}], ids=["none", "tools", "librdkafka"])
def test_every_decoy_has_the_form_that_all_users_have(forms: dict[CredentialForm, int]) -> None:
    shown = Counter(form_of(each) for each in (decoy(SHA_256, user, secret=b"secret", forms=forms) for user in NAMES))

    assert shown == {next(iter(forms), CredentialForm(4096, 0)): len(NAMES)}


def test_decoy_salts_in_the_form_of_kafkas_tools_start_and_end_like_real_ones() -> None:
    random = SeededRandom(2)
    real = Counter((len(salt), salt[:1] == b"1") for salt in (new_salt(random.randrange) for _ in NAMES))
    shown = Counter((len(salt), salt[:1] == b"1") for salt in (of(user).salt for user in NAMES))

    assert all(re.fullmatch(rb"[1-9a-z][0-9a-z]*", of(user).salt) for user in NAMES)
    assert all(abs(real[kind] - shown[kind]) < len(NAMES) // 10 for kind in real | shown)


def test_each_form_is_as_frequent_among_decoys_as_among_users() -> None:
    shown = Counter(form_of(of(user, forms={TOOLS: 30, LIBRDKAFKA: 10})) for user in NAMES)

    assert shown[LIBRDKAFKA] == pytest.approx(len(NAMES) / 4, rel=0.2)
    assert shown[TOOLS] + shown[LIBRDKAFKA] == len(NAMES)


def test_added_user_changes_few_decoys() -> None:
    before, after = {TOOLS: 30, LIBRDKAFKA: 10}, {TOOLS: 31, LIBRDKAFKA: 10}
    changed = [user for user in NAMES if of(user, forms=before) != of(user, forms=after)]

    assert len(changed) < len(NAMES) // 40
