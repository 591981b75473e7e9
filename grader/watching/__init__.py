"""`kata watch`: grades what has been saved, in processes that are warm before the save comes.

events         what can happen: a save, a key, a grade, a command's end
saves          the file system -> events
keyboard       the terminal -> events
lanes          katas -> events: hidden cases dealt to graders in threads, each with a spare worker
side_commands  `kata hint` and others beside the watch -> events
screen         what is said, to a terminal or line by line
watched        which katas it is about, and which comes next
settings       what holds for the whole watch
confirming     passes -> what pytest says of them, one after another
watch          events -> what to grade and what to say next
"""
