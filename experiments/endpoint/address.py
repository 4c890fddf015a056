"""Where an endpoint is, and how it may be reached: checked before anything is sent.

A key is read from the environment alone and never written: not to the config, the results, a log or a message.
Without encryption (http) an endpoint on this machine may always be reached, another host only where no key is set,
for the key would travel in clear text.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable that holds the key."""

_CALL = "/chat/completions"


def checked_url(url: str) -> str:
    """Return the base URL of an endpoint without trailing slashes, so that one endpoint has one spelling.

    Raises:
        ValueError: no http or https URL, or one that holds a user, password, query or fragment, where keys are put;
            the message never repeats those.
    """
    try:
        parts = urlsplit(_without_gaps(url.strip()))
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError("endpoint: not an http or https URL; give a base such as https://HOST/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"endpoint: the URL of {host} holds a user, a query or a fragment, which may be secret and would be "
            f"written down; give the plain URL, and the key in {KEY_VARIABLE}"
        )
    path = parts.path.rstrip("/").removesuffix(_CALL)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{path}"


def _without_gaps(url: str) -> str:
    """Raise ValueError where a URL holds a space or a control character, some of which `urlsplit` drops."""
    if any(mark.isspace() or not mark.isprintable() for mark in url):
        raise ValueError("a gap")
    return url


def is_this_machine(url: str) -> bool:
    """Whether the host of a URL is localhost or a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def key_for(url: str) -> str | None:
    """Return the key in the environment, or None where there is none.

    Raises:
        ValueError: a key that no header can hold, or that would be sent to another machine without encryption.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not all("!" <= mark <= "~" for mark in key):
        raise ValueError(
            f"{KEY_VARIABLE}: holds a space or a character that no key has; set it anew"
        )
    if key and urlsplit(url).scheme == "http" and not is_this_machine(url):
        raise ValueError(
            f"endpoint: {url} is not encrypted and would carry the key in {KEY_VARIABLE} in clear text; "
            "give an https URL, or unset the key where the endpoint needs none"
        )
    return key or None
