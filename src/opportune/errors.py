"""The errors that the package raises on purpose; one `except` catches them all."""


class OpportuneError(ValueError):
    """Input cannot be used; the message says what was given and what was expected."""


class InputError(OpportuneError):
    """An argument, setting or study file is not usable."""


class DataError(OpportuneError):
    """A data file breaks the rules of its format; the message names the row."""


class WriteError(OpportuneError):
    """A file cannot be written; the message names it and the reason, such as a full disk."""


class StateError(OpportuneError):
    """A call came at the wrong moment, or a saved state cannot be resumed."""
