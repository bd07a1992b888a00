"""What rich prints, as text."""

from io import StringIO

from rich.console import Console


def screen(*renderables, width=80, **options):
    console = Console(file=StringIO(), width=width, **options)
    console.print(*renderables, sep="\n")
    return console.file.getvalue()
