"""The `kata` command: one module for each of its commands, which `grader.cli` puts together.

A module has `HELP`, a line; `arguments(parser)`, which adds what the command takes; and
`run(options, root, console)`, which returns the exit code. Everything else is imported when the
command runs, so that `kata next` does not wait for what only `kata cost` needs.
"""
