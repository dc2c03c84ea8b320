"""The pool drill: hosts with several cards each die at random under load, and nothing is lost or done twice."""
