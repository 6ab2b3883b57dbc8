"""SCRAM credentials in the image: set, removed, kept over a snapshot."""

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.scram import ScramDelta, ScramImage, ScramUser, first_credentials, new_decoy_secret, scram_record
from ottla.sasl.scram import ScramCredential, ScramMechanism
from ottla.simulator.world.random_source import SeededRandom
from ottla.wire.messages.metadata_log import RemoveUserScramCredentialRecord, UserScramCredentialRecord

BOB = ScramUser(ScramMechanism.SCRAM_SHA_512, "bob")
ALICE = ScramUser(ScramMechanism.SCRAM_SHA_256, "alice")
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


def image_of(*users: ScramUser) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for user in users:
        delta.replay(scram_record(user, CREDENTIAL).message)
    return delta.apply(Provenance(1, 1, 1))


def test_credential_is_found_by_user_and_mechanism() -> None:
    scram = image_of(BOB).scram

    assert scram.credential(ScramMechanism.SCRAM_SHA_512, "bob") == CREDENTIAL
    assert scram.credential(ScramMechanism.SCRAM_SHA_256, "bob") is None


def test_removed_credential_is_not_found() -> None:
    delta = MetadataDelta(image_of(BOB, ALICE))
    delta.replay(RemoveUserScramCredentialRecord(name="bob", mechanism=2))

    assert set(delta.apply(Provenance(2, 1, 1)).scram.credentials) == {ALICE}


def test_unchanged_scram_image_is_shared() -> None:
    before = image_of(BOB)

    assert MetadataDelta(before).apply(Provenance(2, 1, 1)).scram is before.scram


def test_snapshot_holds_every_credential_and_removes_unnamed_ones() -> None:
    delta = MetadataDelta(image_of(BOB))
    for record in image_of(ALICE).records():
        delta.replay(record.message)
    delta.finish_snapshot()

    assert set(delta.apply(Provenance(2, 1, 1)).scram.credentials) == {ALICE}


def test_formatted_credentials_apply_until_there_is_metadata() -> None:
    assert first_credentials([scram_record(BOB, CREDENTIAL)]).credentials == {BOB: CREDENTIAL}


def test_credential_with_an_unknown_mechanism_is_rejected() -> None:
    with pytest.raises(ValueError, match="3"):
        MetadataDelta(EMPTY_IMAGE).replay(UserScramCredentialRecord(name="bob", mechanism=3))


def test_decoy_secret_is_no_user_and_survives_a_snapshot() -> None:
    delta = MetadataDelta(image_of(BOB))
    delta.replay(new_decoy_secret(SeededRandom(1).randrange).message)
    image = delta.apply(Provenance(2, 1, 1))
    again = MetadataDelta(EMPTY_IMAGE)
    for record in image.records():
        again.replay(record.message)

    assert set(image.scram.credentials) == {BOB}
    assert image.scram.decoy_secret is not None
    assert again.apply(Provenance(2, 1, 1)).scram == image.scram
    assert image.scram.decoy_secret.hex() not in repr(image)


def test_snapshot_without_a_decoy_secret_removes_it() -> None:
    with_secret = MetadataDelta(EMPTY_IMAGE)
    with_secret.replay(new_decoy_secret(SeededRandom(1).randrange).message)
    delta = MetadataDelta(with_secret.apply(Provenance(1, 1, 1)))
    delta.finish_snapshot()

    assert delta.apply(Provenance(2, 1, 1)).scram.decoy_secret is None


def test_forms_are_counted_across_added_changed_and_removed_credentials() -> None:
    def after(image: MetadataImage, **iterations: int | None) -> MetadataImage:
        delta = MetadataDelta(image)
        for name, count in iterations.items():
            if count is None:
                delta.replay(RemoveUserScramCredentialRecord(name=name, mechanism=2))
            else:
                user = ScramUser(ScramMechanism.SCRAM_SHA_512, name)
                delta.replay(scram_record(user, ScramCredential(b"salt", b"stored", b"server", count)).message)
        return delta.apply(Provenance(1, 1, 1))

    def forms(image: MetadataImage) -> dict[int, int]:
        return {form.iterations: count for form, count in image.scram.forms[ScramMechanism.SCRAM_SHA_512].items()}

    first = after(EMPTY_IMAGE, a=4096, b=4096, c=8192)
    second = after(first, a=8192, b=None, d=None)

    assert forms(first) == {4096: 2, 8192: 1}
    assert forms(second) == {8192: 2}
    assert second.scram.forms[ScramMechanism.SCRAM_SHA_256] == {}
    assert forms(first) == {4096: 2, 8192: 1}, "an image does not change"


def test_decoys_have_the_iterations_of_the_mechanism_s_users_and_come_from_the_secret() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(scram_record(BOB, ScramCredential(b"salt", b"stored", b"server", 8192)).message)
    without = delta.apply(Provenance(1, 1, 1)).scram
    delta.replay(new_decoy_secret(SeededRandom(1).randrange).message)
    scram = delta.apply(Provenance(2, 1, 1)).scram

    shown = [scram.decoy(BOB.mechanism, "eve", default_secret=each) for each in (b"one", b"two")]
    assert shown[0] == shown[1]
    assert shown[0].iterations == 8192
    assert scram.decoy(ALICE.mechanism, "eve", default_secret=b"one").iterations == 4096
    assert without.decoy(BOB.mechanism, "eve", default_secret=b"one") != shown[0]


def test_empty_image_after_removals_equals_the_initial_image() -> None:
    delta = ScramDelta(ScramImage())
    delta.finish_snapshot()

    assert delta.apply() == ScramImage()
