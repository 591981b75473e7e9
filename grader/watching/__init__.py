"""`kata watch`: grades a kata when its file is saved, in processes that are already warm.

background_jobs  Background jobs of `kata watch`: grading, confirming, commands
watch_events     The events of `kata watch`: saved files, pressed keys, results
watch_loop       The loop of `kata watch`: handles events, and starts jobs
watch_screen     The screen and the settings of `kata watch`
"""
