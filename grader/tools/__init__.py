"""Small tools that know nothing of katas.

codec       frozen values to builtins and back
arrays      arrays between numpy and bytes
git         git through its own command
loading     a Python file as a module
rendering   what rich draws, as text
"""
