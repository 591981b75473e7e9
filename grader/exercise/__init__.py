"""An exercise as files: where katas, solutions and answer keys lie, and what is in them.

catalog      which katas there are, and where their three files lie
keys         answer keys: what they hold, and how they are read
planted      wrong versions of a kernel under test, and which case shows which
mistakes     the solution with a known mistake made
arithmetic   arithmetic over names, as answer keys write it
cases        from an answer key and a session's seed to hidden cases
specs        from a solution's spec to inputs and expected values
chances      what random results may be, and how often
needs        what a kata builds on, and the shortest way to one
regions      the lines of a kata's file that a learner writes
repository   writing kata files: stubs, new katas
template     the texts of a new kata;  template_kinds, what other kinds have instead
attempts     what a reset, a restore or an update saves before it writes
"""
