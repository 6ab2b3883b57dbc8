"""Our own client and command line with every authentication of JVM Kafka: they connect, and their requests work."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from permission_server import PASSWORDS

from ottla.cli.exit_codes import ExitCode

JAAS = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{JAAS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{JAAS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{JAAS}.scram.ScramLoginModule",
}
LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL", "MUTUAL": "SSL"}

Eventually = Callable[[Callable[[], object]], object]
Ottla = Callable[..., Any]


@dataclass(frozen=True)
class Listeners:
    """The listeners of a running node, and the files with credentials for them."""

    addresses: Mapping[str, str]
    folder: Path

    def options(
        self, listener: str, mechanism: str | None, user: str = "admin", password: str = PASSWORDS["admin"]
    ) -> list[str]:
        """Return the options of a command for a listener, with a file of credentials."""
        lines = {"security.protocol": LISTENERS[listener]}
        if mechanism is not None:
            login = f'username="{user}" password="{password}"'
            lines |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{MODULES[mechanism]} required {login};"}
        if LISTENERS[listener].endswith("SSL"):
            lines |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}
        if listener == "MUTUAL":
            lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "client.pem")}
        path = self.folder / f"{listener}-{mechanism}-{user}-{len(password)}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
        return ["-b", self.addresses[listener], "--command-config", str(path)]


@pytest.fixture(scope="module")
def listeners(starter: Any, authority: Any, tmp_path_factory: pytest.TempPathFactory) -> Listeners:
    folder = tmp_path_factory.mktemp("listeners")
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "node.pem").write_text(authority.issue("CN=node").both)
    (folder / "client.pem").write_text(authority.issue("CN=client").both)
    settings = {
        "super.users": "User:admin;User:CN=client",
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("login", "both"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(MODULES)
        for mechanism, module in MODULES.items():
            users = f' user_admin="{PASSWORDS["admin"]}"' if mechanism == "PLAIN" else ""
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{module} required{users};"
    credentials = [
        f"--add-scram={each}=[name=admin,password={PASSWORDS['admin']}]" for each in MODULES if each != "PLAIN"
    ]
    node = starter.start("kafka", listeners=LISTENERS, formatted=credentials, **settings)
    return Listeners(node.listeners, folder)


@pytest.fixture
def ottla_at(run: Callable[..., Any], listeners: Listeners) -> Callable[..., Ottla]:
    """Return ``ottla_at(listener, mechanism, ...)``, which returns a function that runs `ottla` and checks its code."""

    def at(*arguments: Any) -> Ottla:
        options = listeners.options(*arguments)

        def ottla(*arguments: str, stdin: str = "", code: int | None = ExitCode.OK) -> Any:
            ran = run(*arguments, *options, stdin=stdin.encode())
            assert code is None or ran.code == code, ran
            return ran

        return ottla

    return at


each_authentication = pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        *(pytest.param("LOGIN", mechanism, id=mechanism.lower()) for mechanism in MODULES),
        *(pytest.param("BOTH", mechanism, id=f"{mechanism.lower()}-under-tls") for mechanism in MODULES),
        pytest.param("MUTUAL", None, id="mutual-tls"),
    ],
)


@each_authentication
def test_produced_records_are_consumed(
    ottla_at: Callable[..., Ottla], unique: Callable[[str], str], listener: str, mechanism: str | None
) -> None:
    admin, topic = ottla_at(listener, mechanism), unique("own")
    lines = [f"line {number}" for number in range(200)]
    admin("topic", "create", topic, "-p", "3")
    admin("produce", topic, stdin="".join(f"{line}\n" for line in lines))
    all_of_it = admin("consume", topic, "-O", ":end")
    as_a_member = admin("consume", topic, "-g", topic, "-n", str(len(lines)))

    assert sorted(all_of_it.out.splitlines()) == sorted(lines)
    assert sorted(as_a_member.out.splitlines()) == sorted(lines)


@each_authentication
def test_entries_users_and_quotas_are_created_and_removed(
    ottla_at: Callable[..., Ottla],
    unique: Callable[[str], str],
    eventually: Eventually,
    listener: str,
    mechanism: str | None,
) -> None:
    admin, user = ottla_at(listener, mechanism), unique("user")

    def rows(*arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(admin(*arguments, "-o", "json").out)
        return found

    def entries() -> list[str]:
        found = rows("acl", "list", "--principal", f"User:{user}")
        return [f"{row['permission']} {row['operation']} {row['resource']} {row['name']}" for row in found]

    def credentials() -> list[dict[str, Any]]:
        return [row for row in rows("user", "list") if user in row.values()]

    def limits() -> list[dict[str, Any]]:
        return [row for row in rows("quota", "list") if user in repr(row)]

    admin("acl", "add", f"User:{user}", "--allow", "read", "--topic", user)
    admin("user", "add", user, "--password-stdin", stdin="first\n")
    admin("quota", "set", "--user", user, "producer_byte_rate=1048576")
    assert eventually(lambda: entries() == [f"allow read topic {user}"])
    assert eventually(credentials)
    assert eventually(lambda: "1048576" in repr(limits()))
    admin("acl", "remove", "--principal", f"User:{user}", "--yes")
    admin("user", "remove", user, "--yes")
    admin("quota", "remove", "--user", user)
    assert eventually(lambda: not (entries() or credentials() or limits()))


def test_new_user_authenticates_and_has_the_permissions_of_its_entries(
    ottla_at: Callable[..., Ottla], unique: Callable[[str], str], eventually: Eventually
) -> None:
    admin, user = ottla_at("LOGIN", "SCRAM-SHA-512"), unique("user")
    admin("topic", "create", user)
    admin("produce", user, stdin="hello\n")
    admin("user", "add", user, "--password-stdin", stdin="first\n")
    newcomer = ottla_at("BOTH", "SCRAM-SHA-512", user, "first")
    read = ("consume", user, "-O", ":end")

    assert eventually(lambda: newcomer("topic", "list", code=None).code == ExitCode.OK)
    newcomer(*read, code=ExitCode.DENIED)
    admin("acl", "add", f"User:{user}", "--allow", "read", "--topic", user)
    assert eventually(lambda: newcomer(*read, code=None).out == "hello\n")


@pytest.mark.parametrize("mechanism", MODULES)
def test_wrong_password_is_reported_as_such(ottla_at: Callable[..., Ottla], mechanism: str) -> None:
    rejected = ottla_at("BOTH", mechanism, "admin", "not-the-password")("topic", "list", code=ExitCode.DENIED)

    assert mechanism in rejected.err
    assert "not-the-password" not in rejected.err
