"""Small tools that don't depend on katas.

arrays         Arrays between numpy and the bytes that cross a process boundary
child_process  Starts Python child processes and exchanges messages with them
codec          Frozen values to builtins, JSON and bytes, and back
files          Python files by path, functions by name, atomic writes, exit codes
regions        Solution regions: the lines of an exercise that a learner writes
text           Texts: sizes, times, suggestions, untrusted text; rich output as text
versions       Which versions and extras are installed, and how to install them
"""
