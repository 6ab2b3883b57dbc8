"""Where the API server is, and what this process presents to it: the pod's service account, else KUBECONFIG.

The official client reads a service account's token again every minute, and runs the plugins that a kubeconfig names.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from ottla_operator.errors import CredentialsError

LoadConfiguration: TypeAlias = Callable[[], Awaitable[Configuration]]

BEARER = "BearerToken"
"""The official client's name of the key with the whole ``Authorization`` header."""

_UNUSABLE = (ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What the official client raises for a kubeconfig that it cannot read, or whose structure it does not expect."""


async def load_configuration() -> Configuration:
    """Return the address and credentials as they are now.

    Raises:
        CredentialsError: there are none, or they cannot be used; the message has both causes.
    """
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        outside = error
    else:
        return configuration
    file = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        await load_kube_config(config_file=file, client_configuration=configuration, persist_config=False)
    except _UNUSABLE as error:
        raise CredentialsError(
            f"no credentials: neither a service account's token ({outside}) nor a kubeconfig in {file} ({error}); "
            "set KUBECONFIG, or run as a pod with a service account"
        ) from error
    return configuration
