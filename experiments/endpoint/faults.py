"""What can go wrong with an endpoint, each as one line that names the URL and the mend."""

from __future__ import annotations

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, OpenAIError

from experiments.endpoint.address import KEY_VARIABLE

_SHOWN = 200
"""Characters of an endpoint's own words that a message repeats."""


class EndpointError(RuntimeError):
    """An endpoint failed in a way that further tries would not mend; what is answered is kept."""


class TooLargeError(OpenAIError):
    """An answer's body passes the limit; the client raises it through without a further try."""


class StoppedError(OpenAIError):
    """No more is to be sent; the client raises it through without a further try."""


def shown(text: str, key: str | None = None) -> str:
    """The beginning of an endpoint's own words on one line, without control characters and without the key."""
    if key:
        text = text.replace(key, "***")
    line = " ".join(text.split())
    clean = "".join(mark for mark in line if mark.isprintable())
    return clean if len(clean) <= _SHOWN else clean[:_SHOWN] + "..."


def server_words(error: APIStatusError) -> str:
    """All that the endpoint itself said of a refused request."""
    body = error.body
    if isinstance(body, dict):
        for name in ("message", "detail", "error"):
            if body.get(name):
                return str(body[name])
    return error.response.text


def fault(
    error: OpenAIError, url: str, model: str, timeout_s: float, key: str | None
) -> EndpointError:
    """The one line for an error of the client."""
    tries = _tries(error)
    if isinstance(error, APITimeoutError):
        told = f"no answer within {timeout_s:g} s in {tries}; it is slow or overloaded, try later"
    elif isinstance(error, APIConnectionError):
        why = shown(str(error.__cause__ or error), key)
        told = f"cannot be reached in {tries} ({why}); is it running, and is the URL right?"
    elif isinstance(error, APIStatusError):
        told = _of_status(error, model, tries, key)
    else:
        told = shown(str(error), key)
    return EndpointError(f"endpoint {url}: {told}")


def _tries(error: OpenAIError) -> str:
    """How often the client tried, as it told the endpoint."""
    told = (
        error.request.headers.get("x-stainless-retry-count") if isinstance(error, APIError) else 0
    )
    count = 1 + int(told or 0)
    return f"{count} tries" if count > 1 else "1 try"


def _of_status(error: APIStatusError, model: str, tries: str, key: str | None) -> str:
    status, words = error.status_code, shown(server_words(error), key)
    said = f"{status} ({words})" if words else str(status)
    headers = error.response.headers
    if 300 <= status < 400:
        where = shown(headers.get("location", "nowhere"), key)
        return (
            f"redirects to {where} ({status}), where neither prompts nor the key are sent; "
            "give that URL as the endpoint if you trust it"
        )
    if status in (401, 403):
        return f"{said}; set {KEY_VARIABLE} to a key that may use model {model!r}"
    if status == 404:
        return f"{said}; is {model!r} a model there, and does the URL end as it should (often /v1)?"
    if status == 429:
        after = headers.get("retry-after")
        asks = f"; it asks to wait {shown(after)} s" if after else ""
        return (
            f"{said}, still so after {tries}{asks}; wait, or give fewer requests a minute (--rpm)"
        )
    if status >= 500 or status in (408, 409):
        return f"{said}, still so after {tries}; it is failing or overloaded, try later"
    return f"refuses the request: {said}; the model or the endpoint does not take what is asked"
