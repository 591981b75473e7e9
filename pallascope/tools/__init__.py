"""Small tools that don't depend on katas.

arrays         Arrays between numpy and the bytes that cross a process boundary
child_process  Starts Python child processes and exchanges messages with them
codec          Frozen values to builtins, JSON and bytes, and back
files          Python files by path, functions by name, atomic writes, exit codes
terminal       Renders rich output as text, with or without colour and Unicode
text           Texts: sizes, times, suggestions for mistyped names, untrusted text
versions       Which versions and extras are installed, and how to install them
"""
