"""What can go wrong: every error the package raises on purpose, so that one `except` catches them all."""


class OpportuneError(ValueError):
    """Something the caller gave cannot be used; the message says what was given and what was expected."""


class InputError(OpportuneError):
    """An argument, setting or study file is not usable."""


class DataError(OpportuneError):
    """A data file breaks the rules of its format; the message names the row."""


class WriteError(OpportuneError):
    """A file cannot be written; the message names it and says why, such as a disk that is full."""


class StateError(OpportuneError):
    """A call came at the wrong moment, or a saved state cannot be resumed."""
