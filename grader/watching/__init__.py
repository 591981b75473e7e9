"""`kata watch`: grades what has been saved, in processes that are warm before the save comes.

background_jobs  Background jobs of `kata watch`: grading, confirming, commands
watch_events     The events of `kata watch`: saved files and pressed keys
watch_loop       The loop of `kata watch`: events in, grading and texts out
watch_screen     The screen and the settings of `kata watch`
"""
