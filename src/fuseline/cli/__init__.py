"""The command line, one module a command: ``fuseline NAME`` is the function ``NAME`` of ``fuseline.cli.NAME``.

Its parameters are the options (typer's rules) and its docstring is the help. It prints its answer and returns ``None``,
or an exit status. A command with commands of its own is a ``typer.Typer`` named ``app`` instead. What an error prints
and the status it leaves are decided in ``cli/main.py`` alone, where each command has its line in ``COMMANDS``.
"""
