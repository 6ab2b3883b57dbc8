"""``--add-scram``: keys equal to those of ``kafka-storage format`` (recorded from Kafka 4.3.1), and no secret shown."""

import pytest

from ottla.errors import ConfigurationError
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.format import FormatOptions, format_storage
from ottla.metadata.scram import first_credentials
from ottla.metadata.scram_arguments import scram_records
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.wire.messages.metadata_log import UserScramCredentialRecord

SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3p6"
ALICE = f'SCRAM-SHA-256=[name=alice,salt="{SALT}",password=alice-secret]'
BOB = (
    f'SCRAM-SHA-512=[name=bob,iterations=8192,salt="{SALT}",'
    'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]'
)


def records(*arguments: str) -> list[UserScramCredentialRecord]:
    created = [record.message for record in scram_records(arguments, SeededRandom(1).randrange)]
    assert all(isinstance(record, UserScramCredentialRecord) for record in created)
    return created  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("argument", "name", "mechanism", "iterations", "stored_key", "server_key"),
    [
        pytest.param(
            ALICE,
            "alice",
            1,
            4096,
            "44d84b7b3a19483c208f6c6923f8eb3d4b0e074ba80c8ac5a1b6537473bc8dc8",
            "ebbe145537fcbd9cd75a412da5728eb06b61d5d41be12dc64d13718b512ee9b5",
            id="password",
        ),
        pytest.param(
            BOB,
            "bob",
            2,
            8192,
            "39325a234c6b55502bc3630d337e5e18d56fa3b64e6df76607a8f6e533e8932f"
            "f74ebc81a95c833bec7067d6b2a766fcbe50324ee877cc81a22695c6e4f94d05",
            "48016d6af2f37be24148c855995c503ae1f999191db2b1380a3b4897f2c0fb9f"
            "69c28482e1f909c7c9fe26717e2ca79d3d95936a2d9bbe40a872d16d9fdcd9c7",
            id="salted-password",
        ),
    ],
)
def test_keys_equal_those_of_kafka_s_tool(
    argument: str, name: str, mechanism: int, iterations: int, stored_key: str, server_key: str
) -> None:
    (record,) = records(argument)

    assert (record.name, record.mechanism, record.iterations) == (name, mechanism, iterations)
    assert (record.stored_key.hex(), record.server_key.hex()) == (stored_key, server_key)


def test_missing_salt_is_generated() -> None:
    one, other = records("SCRAM-SHA-256=[name=a,password=b]", "SCRAM-SHA-256=[name=a,password=b]")

    assert one.salt != other.salt
    assert one.stored_key != other.stored_key


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("hunter2", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=hunter2]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=hunter2]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=b]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=hunter2,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=x]", "Failed to parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,foo=1]", "Unknown SCRAM configurations: foo"),
        ("SCRAM-SHA-256=[name=a,hunter2]", "No equals sign found in SCRAM component"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=!]", "Failed to decode given saltedPassword"),
    ],
)
def test_errors_have_kafka_s_messages_without_the_secret(argument: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        records(argument)

    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def formatted(disk: SimulatedDisk, metadata_version: int) -> list[str]:
    options = FormatOptions(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=1,
        log_directories=["/a"],
        metadata_log_directory="/a",
        is_controller=True,
        static_voters=True,
        metadata_version=metadata_version,
        scram=[ALICE],
    )
    return format_storage(disk, SimulatedClock(), SeededRandom(1), options)


def test_format_writes_credentials_after_the_features_and_prints_no_key() -> None:
    disk = SimulatedDisk()
    line = formatted(disk, 11)[0]

    assert read_bootstrap(disk, "/a")[-2].message == records(ALICE)[0]
    assert "UserScramCredentialRecord(name='alice', mechanism=1, salt=[hidden], storedKey=[hidden]" in line


def test_format_with_users_generates_the_decoy_secret() -> None:
    disk = SimulatedDisk()
    line = formatted(disk, 11)[0]
    scram = first_credentials(read_bootstrap(disk, "/a"))

    assert scram.decoy_secret
    assert [user.name for user in scram.credentials] == ["alice"]
    assert line.count("UserScramCredentialRecord") == 1, "Kafka's line has none for it"


def test_older_metadata_version_rejects_scram_credentials() -> None:
    with pytest.raises(ConfigurationError, match=r"SCRAM is only supported in metadata.version 3.5-IV2 or later."):
        formatted(SimulatedDisk(), 10)
