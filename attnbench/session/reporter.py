"""Reporter: who is told what happens while something is measured or read."""


class Reporter:
    """This one keeps silent and agrees to everything; a subclass shows what it wants to show."""

    command = ""
    """What the user typed, where that is known; a run remembers it."""

    def say(self, text: str) -> None:
        """Take a warning, a note, or a line on what comes next."""

    def step(self, doing: str, done: int, total: int, left: str = "") -> None:
        """Take how far the work is: what is being done, how much of all of it is done, the time that is left in words."""

    def block(self, text: str) -> None:
        """Take a line on a part of the work that is over, for those who show no bar."""

    def stop(self) -> None:
        """Nothing more will be heard of the work that the last steps were of."""

    def agrees(self, question: str) -> bool:  # noqa: ARG002
        """Say whether to go on with something that may be larger than was thought."""
        return True
