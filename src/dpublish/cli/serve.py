"""`dpublish serve`: the curator's office, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on. [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on; 0 takes a free one.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Folder of everything the service keeps."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Configuration, see docs/serve.md."),
    ] = None,
) -> None:
    """Start the office: pages for curators, approvers, auditors and researchers, and a public
    catalogue."""
    from dpublish.errors import InputError

    try:
        from dpublish.server.config import Config
        from dpublish.server.listen import listen
    except ImportError as error:
        raise InputError(
            f"The service needs packages that are not installed ({error.name}). "
            "Install them with: pip install 'dpublish[server]'"
        ) from None
    listen(Config.read(config, host=host, port=port, state=state))
