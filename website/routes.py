"""The route reference, from the service's own OpenAPI description."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any


def routes() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield method, path and description of every route of the service."""
    for path, operations in _document().get("paths", {}).items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def route_reference() -> str:
    """Return who may use each route, one section per route, then the records that bodies and answers are made of."""
    document = _document()
    if not document:
        return "This version has no service."
    sections = [_section(method, path, operation) for method, path, operation in routes()]
    records = document["components"]["schemas"]
    return "\n\n".join(
        [access_table(), *sections, "## Records", *(_record(name, records[name]) for name in sorted(records))]
    )


def access_table() -> str:
    """Return every route with who may use it, from the service's table of permissions, as a Markdown table."""
    from setwise.service.auth.permissions import API_ROUTES, Access

    people = {
        Access.ANYONE: "anyone",
        Access.HOLDER: "any token",
        Access.PERSON: "analyst, steward",
        Access.STEWARD: "steward",
    }
    rows = [f"| `{method} {path}` | {people[permission.access]} |" for (method, path), permission in API_ROUTES.items()]
    return "\n".join(["| route | who |", "|---|---|", *rows])


def _document() -> dict[str, Any]:
    if find_spec("setwise.service") is None:
        return {}
    from fastapi import FastAPI

    from setwise.service.app import ROUTERS, describe

    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return describe(app)


def _section(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"## {method} {path}", operation.get("description", "")]
    if operation.get("parameters"):
        rows = [
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(each.get('description', ''))} |"
            for each in operation["parameters"]
        ]
        parts.append("\n".join(["| parameter | in | type | |", "|---|---|---|---|", *rows]))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        parts.append(f"The body is {_type(body)}{_examples(body)}")
    rows = [
        f"| {status} | {_answer(answer)} | {_cell(answer['description'])} |"
        for status, answer in operation["responses"].items()
    ]
    parts.append("\n".join(["| status | answer | |", "|---|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part)


def _record(name: str, schema: Mapping[str, Any]) -> str:
    rows = [
        f"| `{field}` | {_type(each)} | {'' if field in schema.get('required', ()) else 'optional'} "
        f"| {_cell(each.get('description', ''))} |"
        for field, each in schema.get("properties", {}).items()
    ]
    table = "\n".join(["| field | type | | |", "|---|---|---|---|", *rows]) if rows else _type(schema)
    return "\n\n".join(part for part in (f"### {name}", schema.get("description", ""), table) if part)


def _answer(answer: Mapping[str, Any]) -> str:
    return " or ".join(_type(content.get("schema", {})) for content in answer.get("content", {}).values())


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type in words, a record as a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(_type(each) for each in schema[choice])
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case str(kind):
            return kind
        case _:
            return "any"


def _examples(schema: Mapping[str, Any]) -> str:
    given = [json.dumps(example, indent=2) for example in schema.get("examples", ())]
    return "; for example\n\n" + "\n\n".join(f"```json\n{example}\n```" for example in given) if given else "."


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
