"""Credentials: a service account's, which are read again, and those of a kubeconfig and its plugins."""

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import incluster_config

from ottla_operator.adapters.kubernetes import credentials
from ottla_operator.adapters.kubernetes.credentials import BEARER, load_configuration
from ottla_operator.errors import CredentialsError


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in no pod, and have no kubeconfig."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any]) -> None:
    cluster = {"server": "http://127.0.0.1:1/"}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


def authorization(configuration: Configuration) -> str | None:
    """Return the header that a request carries now."""
    found: str | None = asyncio.run(configuration.get_api_key_with_prefix(BEARER))
    return found


def test_no_credentials_say_what_was_searched() -> None:
    with pytest.raises(
        CredentialsError, match=r"neither a service account's token .* nor a kubeconfig in ~/.kube/config"
    ):
        asyncio.run(load_configuration())


def test_kubeconfig_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(tmp_path, monkeypatch, {"token": "t"})

    found = asyncio.run(load_configuration())

    assert (found.host, authorization(found)) == ("http://127.0.0.1:1", "Bearer t")


def test_kubeconfig_with_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "plugin"
    version = "client.authentication.k8s.io/v1"
    response = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "made"}}
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(response)!r})\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    kubeconfig(tmp_path, monkeypatch, {"exec": {"apiVersion": version, "command": str(plugin)}})

    assert authorization(asyncio.run(load_configuration())) == "Bearer made"


@pytest.mark.parametrize(
    "content",
    ["", "[", "[1]", "{contexts: 1}", "{current-context: c, contexts: [{name: c}], clusters: []}", "\x00"],
    ids=["empty", "no-yaml", "list", "numbers", "no-context", "binary"],
)
def test_unusable_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    (tmp_path / "config").write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    with pytest.raises(CredentialsError, match=f"kubeconfig in {tmp_path}/config"):
        asyncio.run(load_configuration())


def test_kubeconfig_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(tmp_path, monkeypatch, {"token": "t"})
    before = (tmp_path / "config").read_bytes(), (tmp_path / "config").stat().st_mtime_ns

    asyncio.run(load_configuration())

    assert ((tmp_path / "config").read_bytes(), (tmp_path / "config").stat().st_mtime_ns) == before


def test_token_of_a_service_account_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text("a certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    def load(configuration: Configuration) -> None:
        loader = incluster_config.InClusterConfigLoader(token_filename=str(token), cert_filename=str(authority))
        loader._token_refresh_period *= 0
        loader.load_and_set(configuration)

    monkeypatch.setattr(credentials, "load_incluster_config", load)
    found = asyncio.run(load_configuration())
    assert (found.host, authorization(found)) == ("https://[fd00::1]:443", "bearer first")

    token.write_text("second")

    assert authorization(found) == "bearer second"
