"""Help text in sections by reader. Plain text: typer's panels load a Markdown parser, and help
should be there at once."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Sections(TyperGroup):
    """Lists commands under the panel each was registered with, in the order of registration."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                # typer marks an unset panel with a placeholder that is not text
                title = panel if isinstance(panel, str) else "Commands"
                sections.setdefault(title, []).append((name, command.get_short_help_str(200)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)
