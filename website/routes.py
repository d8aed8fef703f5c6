"""The route reference, from the service's own OpenAPI description."""

from importlib.util import find_spec


def route_reference() -> str:
    """Return one section per route."""
    if find_spec("setwise.service") is None:
        return "This version has no service."
    raise NotImplementedError
