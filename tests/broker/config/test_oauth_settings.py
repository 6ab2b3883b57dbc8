"""OAUTHBEARER settings: allowed sources of keys, and settings without a default."""

import pytest

from ottla.config.oauth_settings import read_oauth_settings
from ottla.errors import ConfigurationError

URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def test_defaults_are_kafkas() -> None:
    settings = read_oauth_settings({URL: "https://issuer/keys"}, "CLIENTS")

    assert (settings.issuer, settings.audiences, settings.skew_ms) == (None, (), 30_000)
    assert (settings.subject_claim, settings.scope_claim) == ("sub", "scope")
    assert (settings.refresh_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms) == (3_600_000, 100, 10_000)
    assert not settings.fetch.allows_private_addresses


def test_listener_and_mechanism_override_the_defaults() -> None:
    settings = read_oauth_settings(
        {
            URL: "https://issuer/keys",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "me, us",
            "listener.name.clients.sasl.oauthbearer.expected.issuer": "https://issuer",
            "sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.sub.claim.name": "email",
            "ottla.oauthbearer.private.addresses.allow": "true",
        },
        "CLIENTS",
    )

    assert (settings.issuer, settings.audiences, settings.skew_ms) == ("https://issuer", ("me", "us"), 5_000)
    assert settings.subject_claim == "email"
    assert settings.fetch.allows_private_addresses


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        pytest.param({}, "is missing", id="no-keys"),
        pytest.param({URL: "http://issuer/keys"}, "may be https: or file:", id="http"),
        pytest.param({URL: "ftp://issuer/keys"}, "may be https: or file:", id="ftp"),
        pytest.param({URL: "file:///keys"}, "is not in org.apache.kafka", id="a-file-that-is-not-allowed"),
        pytest.param({URL: "https://a/", ALLOWED: "https://b/"}, "is not in org.apache.kafka", id="another-url"),
        pytest.param({URL: "file://host/keys", ALLOWED: "file://host/keys"}, "absolute", id="a-file-on-another-host"),
        pytest.param({URL: "https:///keys"}, "https://host", id="no-host"),
        pytest.param({URL: "https://me:hunter2@issuer/"}, "without user information", id="user-information"),
        pytest.param({URL: "https://issuer:x/"}, "no URL", id="no-port"),
    ],
)
def test_disallowed_sources_of_keys_are_rejected(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        read_oauth_settings(properties, "CLIENTS")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("url", ["file:///etc/keys.json", "https://issuer/keys"])
def test_allowed_urls_are_accepted(url: str) -> None:
    settings = read_oauth_settings({URL: url, ALLOWED: f"https://other/, {url}"}, "CLIENTS")

    assert settings.fetch.url == url
