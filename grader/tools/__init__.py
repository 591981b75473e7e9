"""Small tools that know nothing of katas.

codec      frozen values to builtins, JSON and bytes, and back
arrays     arrays between numpy and bytes
git        git through its own command
extras     which extras exist for this machine, and what to do where they don't
modules    import a Python file by its path
rendering  what rich draws, as text
versions   which versions of jax, libtpu and the grader are installed
nearest    which known names a mistyped one may stand for
editor     a file at a line, in the learner's editor
"""
