"""The `kata` command: one module for each of its commands, which `grader.cli` puts together.

A module has `arguments(parser)`, which adds what the command takes, and
`run(options, root, console)`, which returns the exit code. Only the module of the command that was
typed is imported, so that `kata next` does not wait for what only `kata cost` needs.

overview    what `kata` alone shows
arguments   arguments that several commands take, and what a shell completes them with
launches    arguments of the commands that are about one launch
"""
