"""A class: one clone of the course for each student, and what a teacher wants to know of them.

clones     a folder -> the clones in it, and what their files hold
places     a clone's files and its ledger -> where the student stands at each kata
stuck      places -> the katas that many have tried and few have solved
verified   places and verdicts -> what the files earn, beside what the ledgers claim
table      all of it as text
page       and as a page for a browser
rows       and as rows for a spreadsheet
"""
