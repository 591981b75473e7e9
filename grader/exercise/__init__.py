"""An exercise as files: where katas, solutions and answer keys lie, and what is in them.

answer_key         What an answer key holds, once read
arithmetic         Arithmetic over names, as answer keys write it: "3*bm + 40"
cases              Draws hidden cases from an answer key and the session's seed
catalog            katas/ and solutions/ on disk: the katas and their files
key_reader         Reads answer keys: the TOML file next to each solution, validated
key_tables         Tables that only some answer keys have, and the errors of a key
mutants            Known mistakes, and versions of a kernel under test, as texts
readmes            Tables in the READMEs, prerequisites, and leftovers of templates
reference_results  Expected results and their sensitivity, and shapes of inputs
regions            Solution regions: the lines of a kata file that a learner writes
repository         Writes kata files: stubs, resets, saved attempts, new katas
specs              Evaluates the solution's side of a case: inputs and expected results
targets            The hardware that a kata's kernel is for: TPUs or GPUs
templates          The texts of a new kata, for each kind of kata
"""
