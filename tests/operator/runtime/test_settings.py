"""The operator's environment: accepted settings, and errors that name a variable."""

from typing import Any

import pytest

from ottla_operator.errors import OperatorError
from ottla_operator.model.objects.network_policy import OperatorPods
from ottla_operator.runtime.settings import Settings


def test_empty_environment_gives_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings()


def test_every_setting_can_be_given() -> None:
    settings = Settings.from_environment(
        {
            "OTTLA_OPERATOR_DEFAULT_IMAGE": "mine:1",
            "OTTLA_OPERATOR_WATCH_NAMESPACES": "b, a,,b",
            "OTTLA_OPERATOR_HTTP_HOST": "127.0.0.1",
            "OTTLA_OPERATOR_HTTP_PORT": "9000",
            "OTTLA_OPERATOR_WORKERS": "2",
            "OTTLA_OPERATOR_RESYNC_S": "60",
            "OTTLA_OPERATOR_STALL_S": "30.5",
            "OTTLA_OPERATOR_WATCH_STALL_S": "90",
            "OTTLA_OPERATOR_LEASE_NAMESPACE": "system",
            "OTTLA_OPERATOR_LEASE_NAME": "one",
            "OTTLA_OPERATOR_POD_NAME": "pod-1",
            "OTTLA_OPERATOR_OWN_NAMESPACE": "system",
            "OTTLA_OPERATOR_OWN_LABELS": "a/b=c, d=",
            "OTTLA_OPERATOR_LOG_LEVEL": "DEBUG",
        }
    )

    assert settings.pods == OperatorPods(namespace="system", labels={"a/b": "c", "d": ""})
    assert settings == Settings(
        default_image="mine:1",
        watch_namespaces=("a", "b"),
        http_host="127.0.0.1",
        http_port=9000,
        workers=2,
        resync_s=60,
        stall_s=30.5,
        watch_stall_s=90,
        lease_namespace="system",
        lease_name="one",
        pod_name="pod-1",
        own_namespace="system",
        own_labels=(("a/b", "c"), ("d", "")),
        log_level="debug",
    )


@pytest.mark.parametrize("known", [{"own_namespace": "a"}, {"own_labels": (("a", "b"),)}], ids=["namespace", "labels"])
def test_namespace_and_labels_of_own_pods_are_used_together_only(known: dict[str, Any]) -> None:
    """A policy without labels would admit every pod of a namespace."""
    assert Settings(**known).pods is None


def test_variables_of_a_kubernetes_service_are_no_settings() -> None:
    assert Settings.from_environment({"OTTLA_OPERATOR_PORT": "tcp://10.0.0.1:80"}) == Settings()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OWN_LABELS", "a"),
        ("OWN_LABELS", "=b"),
        ("HTTP_PORT", "http"),
        ("HTTP_PORT", "0"),
        ("WORKERS", "0"),
        ("RESYNC_S", "-1"),
        ("RESYNC_S", "nan"),
        ("STALL_S", "inf"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_bad_value_names_its_variable(name: str, text: str) -> None:
    with pytest.raises(OperatorError, match=f"OTTLA_OPERATOR_{name} is '{text}'"):
        Settings.from_environment({f"OTTLA_OPERATOR_{name}": text})
