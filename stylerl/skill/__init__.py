"""Did the model get worse at its job?  HumanEval's tests say.

problems.py takes HumanEval's own solutions and leaves their last lines to the
model; measure.py samples these and tells how many are right, and how many
are both right and compliant.  A completion runs in sandbox.py's bubblewrap and
nowhere else: candidate.py is what runs there, trial.py asks it, outside, what
the problem's tests want to know.
"""
