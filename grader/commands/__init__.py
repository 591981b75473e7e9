"""The `kata` command: one module for each of its commands, which `grader.cli` puts together.

A module has `arguments(parser)`, which adds what the command takes, and
`run(options, root, console)`, which returns the exit code. Only the module of the command that was
typed is imported, so that `kata next` does not wait for what only `kata cost` needs.

arguments             Arguments that several commands take, and their completion
attempts              `kata reset`, `kata restore`, `kata commit`
authors               `kata new` and `kata sync`, for authors
class_report_command  `kata class report`
grade                 `kata grade`, `kata baseline`, `kata tasks`
hints                 `kata hint`, `kata show`, `kata after`
launches              `kata cost`, `kata trace`, `kata view`
progress              `kata`, `kata progress`, `kata next`, `kata list`
update                `kata update`: new and changed katas from upstream
watch                 `kata watch`: threads, terminal and options
"""
