"""The files of an exercise: katas, solutions and answer keys.

answer_key    The data of an answer key
arithmetic    Arithmetic over names, as answer keys write it: "3*bm + 40"
cases         Draws hidden cases from an answer key and the session's seed
catalog       katas/ and solutions/ on disk: the katas and their files
drawn_inputs  Draws the inputs of a case; the outcomes of random results
key_reader    Reads answer keys: the TOML file next to each solution, validated
key_tables    Tables of an answer key: kind, mesh, randomness, target; their errors
mutants       The solution's text with a known mistake or a planted kernel
readmes       Prerequisites of katas, tables in the READMEs, leftovers of templates
repository    Writes kata files: stubs, resets, saved attempts, new katas
specs         Evaluates the solution's side of a case: inputs and expected results
targets       The hardware that a kata's kernel is for: TPUs or GPUs
templates     The texts of a new kata, for each kind of kata
"""
