"""The commands of `kata`, which `grader.cli` loads by name.

For each command NAME, a module has `NAME_arguments(parser)`, which adds its arguments, and
`run_NAME(options, root, console)`, which returns the exit code. Only the module of the typed
command is imported, so that `kata next` doesn't wait for the imports of `kata cost`.

arguments  Arguments of several commands, and their completion
attempts   `kata reset`, `kata restore`, `kata commit`
authors    `kata new` and `kata sync`, for authors
grade      `kata grade`, `kata baseline`, `kata tasks`, `kata class report`
hints      `kata hint`, `kata show`, `kata after`
launches   `kata cost`, `kata trace`, `kata view`
progress   `kata`, `kata progress`, `kata next`, `kata list`
update     `kata update`: new and changed katas from upstream
watch      `kata watch`: threads, terminal and options
"""
