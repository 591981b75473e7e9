"""Small tools that know nothing of katas.

codec       frozen values to builtins and back
arrays      arrays between numpy and bytes
git         git through its own command
loading     a Python file as a module
nearest     which known names a mistyped one may stand for
editor      a file at a line, in the learner's editor
rendering   what rich draws, as text
versions    of the packages that judge
"""
