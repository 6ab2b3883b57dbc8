"""SCRAM: the RFCs' exchanges byte for byte, agreement of both sides, and garbage that is always rejected."""

import base64
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sasl.exchange import AuthenticationFailedError
from ottla.sasl.scram import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramSecret,
    ScramServer,
    credential,
    new_salt,
    salted_password,
)
from ottla.sasl.scram_decoys import decoy
from ottla.simulator.world.random_source import SeededRandom

SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512


def known(mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 4096) -> ScramCredential:
    return credential(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


BOB = {mechanism: known(mechanism, "pencil") for mechanism in ScramMechanism}


def decoys(mechanism: ScramMechanism) -> Callable[[str], ScramCredential]:
    return lambda user: decoy(mechanism, user, secret=b"the cluster's", forms={})


def server_of(
    mechanism: ScramMechanism = SHA_256, credential_of: Callable[[str], ScramCredential | None] | None = None
) -> ScramServer:
    lookup = credential_of or {"bob": BOB[mechanism]}.get
    return ScramServer(mechanism, credential_of=lookup, nonce="server", decoy_of=decoys(mechanism))


def authenticate(server: ScramServer, client: ScramClient) -> None:
    token: bytes | None = client.first()
    while token is not None:
        token = client.evaluate(server.evaluate(token))


@pytest.mark.parametrize(
    ("mechanism", "salt", "nonces", "proof", "signature"),
    [
        pytest.param(
            SHA_256,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            id="rfc-7677-section-3",
        ),
    ],
)
def test_exchange_of_the_rfc_is_reproduced(
    mechanism: ScramMechanism, salt: str, nonces: tuple[str, str], proof: str, signature: str
) -> None:
    stored = known(mechanism, "pencil", base64.b64decode(salt))
    server = ScramServer(mechanism, credential_of={"user": stored}.get, nonce=nonces[1], decoy_of=decoys(mechanism))
    client = ScramClient(ScramSecret(mechanism, "user", "pencil"), nonce=nonces[0])

    assert client.first() == f"n,,n=user,r={nonces[0]}".encode()
    first = server.evaluate(client.first())
    assert first == f"r={nonces[0]}{nonces[1]},s={salt},i=4096".encode()
    final = client.evaluate(first)
    assert final == f"c=biws,r={nonces[0]}{nonces[1]},p={proof}".encode()
    assert server.evaluate(final) == f"v={signature}".encode()
    assert (server.is_complete, server.user) == (True, "user")


@pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda mechanism: mechanism.mechanism_name)
@pytest.mark.parametrize("user", ["bob", "a,b=c", "=2C", "Jos\u00e9", "\u540d\u524d"])
def test_both_sides_agree_for_any_user_name(mechanism: ScramMechanism, user: str) -> None:
    server = server_of(mechanism, {user: BOB[mechanism]}.get)
    client = ScramClient(ScramSecret(mechanism, user, "pencil"), nonce="client")
    authenticate(server, client)

    assert server.is_complete
    assert client.is_complete
    assert server.user == user


def test_wrong_password_is_rejected() -> None:
    server = server_of()
    with pytest.raises(AuthenticationFailedError, match="wrong password"):
        authenticate(server, ScramClient(ScramSecret(SHA_256, "bob", "pen"), nonce="client"))

    assert not server.is_complete


def test_unknown_user_is_indistinguishable_from_a_wrong_password() -> None:
    def attempt(user: str) -> tuple[bytes, str | None]:
        server = server_of()
        client = ScramClient(ScramSecret(SHA_256, user, "pen"), nonce="client")
        first = server.evaluate(client.first())
        final = client.evaluate(first)
        assert final is not None
        with pytest.raises(AuthenticationFailedError) as failed:
            server.evaluate(final)
        return first, failed.value.client_message

    there, existing_message = attempt("bob")
    missing, missing_message = attempt("eve")

    assert existing_message is missing_message is None
    assert there.endswith(b",i=4096")
    assert missing.endswith(b",i=4096")
    assert attempt("eve")[0] == missing, "a decoy salt that changes reveals that the user does not exist"
    assert attempt("mallory")[0] != missing


def test_client_rejects_a_server_that_does_not_know_the_password() -> None:
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")
    client.evaluate(server_of().evaluate(client.first()))

    with pytest.raises(AuthenticationFailedError, match="does not know the password"):
        client.evaluate(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("y,,n=bob,r=x", id="the-client-could-bind-a-channel"),
        pytest.param("p=tls-unique,,n=bob,r=x", id="channel-binding"),
        pytest.param("n,,m=ext,n=bob,r=x", id="a-mandatory-extension"),
        pytest.param("n,,n=,r=x", id="no-name"),
        pytest.param("n,,n=b=ob,r=x", id="an-escape-that-is-none"),
        pytest.param("n,,n=bob,r=", id="no-nonce"),
        pytest.param("n,,n=bob,r=\u20ac", id="a-nonce-that-is-not-printable"),
        pytest.param("n,a=eve,n=bob,r=x", id="in-the-name-of-another"),
        pytest.param("", id="nothing"),
    ],
)
def test_unsupported_client_first_is_rejected(first: str) -> None:
    with pytest.raises(AuthenticationFailedError):
        server_of().evaluate(first.encode())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda final: final.replace(b"c=biws", b"c=eSws"), id="another-header"),
        pytest.param(lambda final: final.replace(b"clientserver", b"otherserver"), id="another-nonce"),
        pytest.param(lambda final: final.replace(b"clientserver", b"xclientserver"), id="a-nonce-that-ends-alike"),
        pytest.param(lambda final: final[:-8], id="a-short-proof"),
        pytest.param(lambda final: final + b"AAAA", id="a-long-proof"),
        pytest.param(lambda _: b"c=biws,r=clientserver,p=", id="no-proof"),
        pytest.param(lambda _: b"", id="nothing"),
    ],
)
def test_changed_client_final_is_rejected(change: Callable[[bytes], bytes]) -> None:
    server = server_of()
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")
    final = client.evaluate(server.evaluate(client.first()))
    assert final is not None

    with pytest.raises(AuthenticationFailedError):
        server.evaluate(change(final))
    assert not server.is_complete


def test_duplicated_nonce_of_old_librdkafka_is_rejected_with_its_version() -> None:
    server = server_of()
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")
    final = client.evaluate(server.evaluate(client.first()))
    assert final is not None

    with pytest.raises(AuthenticationFailedError, match=r"librdkafka before version 2\.6\.1 sends it"):
        server.evaluate(final.replace(b"clientserver", b"clientclientserver"))


@pytest.mark.parametrize("iterations", [4095, 16385, 999_999_999])
def test_client_rejects_iterations_out_of_bounds(iterations: int) -> None:
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")

    with pytest.raises(AuthenticationFailedError, match="iterations"):
        client.evaluate(f"r=clientserver,s=c2FsdA==,i={iterations}".encode())


@given(tokens=st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_garbage_only_raises_authentication_failed(tokens: list[bytes]) -> None:
    server = server_of()

    def exchange() -> None:
        for token in (*tokens, b""):
            server.evaluate(token)

    with pytest.raises(AuthenticationFailedError):
        exchange()
    assert not server.is_complete


@given(
    challenge=st.one_of(st.binary(max_size=200), st.text(alphabet="r=client,sd4096iv+/A", max_size=80).map(str.encode))
)
def test_garbage_from_a_server_only_raises_authentication_failed(challenge: bytes) -> None:
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")

    with pytest.raises(AuthenticationFailedError):
        client.evaluate(challenge)
    assert not client.is_complete


def test_server_computes_no_salted_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow part is the client's: a flood of authentications costs a server little."""
    client = ScramClient(ScramSecret(SHA_256, "bob", "pencil"), nonce="client")
    server = server_of()
    final = client.evaluate(server.evaluate(client.first()))
    assert final is not None
    calls: list[str] = []
    digest = hmac.digest
    monkeypatch.setattr("ottla.sasl.scram.salted_password", lambda *_: pytest.fail("the server salts a password"))
    monkeypatch.setattr("ottla.sasl.scram.hmac.digest", lambda *args: calls.append(args[2]) or digest(*args))
    server.evaluate(final)

    assert len(calls) == 2


def test_salts_have_the_form_of_kafkas_tools() -> None:
    salt = new_salt(SeededRandom(1).randrange)

    assert 20 <= len(salt) <= 26
    assert salt.isalnum()
    assert new_salt(lambda _: 0) == b"0"


def test_credential_repr_shows_no_secret() -> None:
    assert b"salt" not in repr(BOB[SHA_512]).encode()
    assert BOB[SHA_512].iterations == ITERATIONS_MIN
    assert sorted(SCRAM_MECHANISMS) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
