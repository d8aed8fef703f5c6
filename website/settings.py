"""The table of the service's settings, from the record that holds them."""

from importlib.util import find_spec


def settings_table() -> str:
    """Return every setting of `setwise serve` as a Markdown table: option, environment variable, default, meaning."""
    if find_spec("setwise.service") is None:
        return "This version has no service."
    from setwise.service.settings import PREFIX, Settings

    lines = ["| option | variable | default | |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        shown = f"`{option}`" if option in serve_options() else ""
        default = " ".join(field.default) if isinstance(field.default, tuple) else field.default
        lines.append(f"| {shown} | `{PREFIX}{name.upper()}` | {_default(default)} | {field.description} |")
    return "\n".join(lines)


def serve_options() -> set[str]:
    """Return the names of the options of `setwise serve`, without `--help`."""
    import typer.main

    from setwise.cli.main import app

    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts} - {"--help"}


def _default(value: object) -> str:
    return {"None": "", "True": "on", "False": "off", "": ""}.get(str(value), f"`{value}`")
