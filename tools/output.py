"""What the commands print for programs."""

import json

import typer


def print_json(value: object) -> None:
    """Print a value on standard output as JSON in ASCII, which every stream and reader takes."""
    typer.echo(json.dumps(value, indent=2))
