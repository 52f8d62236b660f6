"""The one kind of error that is the user's to mend."""


class UserError(Exception):
    """Something a user can put right; programs print it as one sentence, without a traceback."""
