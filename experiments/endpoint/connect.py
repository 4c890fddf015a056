"""From a URL and a model's name to a client that has answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.endpoint.address import checked_url, key_for
from experiments.endpoint.pace import Pace

if TYPE_CHECKING:
    from experiments.endpoint.client import EndpointClient


def connect(url: str, model: str, per_minute: float | None = None) -> EndpointClient:
    """Return a client of the endpoint, with the key in the environment; nothing is sent yet.

    Raises:
        ValueError: a URL that cannot be an endpoint's, or one that the key must not be sent to.
        ImportError: the `openai` package is absent; says how to install it.
    """
    url = checked_url(url)
    key = key_for(url)
    try:
        from experiments.endpoint.client import EndpointClient
    except ImportError as error:
        if error.name not in ("openai", "httpx2"):
            raise
        raise ImportError(
            "endpoint: needs the openai package; run `pip install 'selfprobe[endpoint]'`"
        ) from None
    return EndpointClient(url, model, key=key, pace=Pace(per_minute))
