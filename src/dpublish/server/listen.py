"""Listening: the socket, the log, and what is said at the start."""

from __future__ import annotations

import logging
import socket

import uvicorn
from starlette.applications import Starlette

from dpublish.errors import InputError
from dpublish.server.app import Office, create_app
from dpublish.server.config import Config


def listen(config: Config) -> None:
    """Serve until stopped. The first person gets a link that works once."""
    listener = _listener(config)  # a port that is taken is told before anything is made
    serve_app(create_app(config), listener)


def serve_app(app: Starlette, listener: socket.socket | None = None) -> None:
    """Serve an application that is made: says where, then answers until it is stopped."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    office: Office = app.state.office
    listener = listener or _listener(office.config)
    office.listens(listener.getsockname()[1])
    print(f"{office.config.title}: {office.address}/", flush=True)
    secret = office.first_link()
    if secret is None:
        print(f"Log in: {office.address}/login", flush=True)
    else:
        print("Nobody can log in yet. This link lets one person in, once, as admin:", flush=True)
        print(f"    {office.address}/login/link?key={secret}", flush=True)
    print("Stop with Ctrl-C.", flush=True)
    # no access log: addresses hold what people search for, and the log of actions says who did what
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
    )
    uvicorn.Server(settings).run(sockets=[listener])


def _listener(config: Config) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((config.host, config.port))
    except OSError as error:
        made.close()
        raise InputError(
            f"Cannot listen on {config.host} port {config.port} ({error.strerror}). "
            "Give another --port; 0 takes a free one."
        ) from None
    made.set_inheritable(True)
    return made
