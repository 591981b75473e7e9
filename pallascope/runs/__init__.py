"""Runs traced launches in a process that has no file of the launch: questions and answers.

questions          questions about a trace, and their answers, as data
launch_runs        runs and compiles a trace, and looks for the causes of wrong results
exception_reports  exceptions as data, with the line of the launch's file
warmup             a small kernel for a process that has just started
"""
