"""The tasks that models learn, one a file; each states its rule, its source, and the score of guessing."""

from attnbench.schema.training import Task, Training
from attnbench.training.tasks.duplication import Duplication
from attnbench.training.tasks.induction import Induction
from attnbench.training.tasks.listops import ListOps
from attnbench.training.tasks.pixels import Pixels, load_images
from attnbench.training.tasks.recall import Recall
from attnbench.training.tasks.sound_files import SoundFiles
from attnbench.training.tasks.speech import Tones
from attnbench.training.tasks.task_data import Alphabet, Batch, TaskData
from attnbench.training.tasks.text import Text, python_sources, read_corpus

__all__ = ["Alphabet", "Batch", "TaskData", "task_of"]


def task_of(training: Training, N: int) -> TaskData:
    """Return the task of a model that reads N tokens.

    Raises ValueError where N does not fit, FileNotFoundError where data is missing, and MissingPackageError where a
    package is.
    """
    match training.task:
        case Task.COPY:
            return Duplication(N, training.symbols, training.shortest or None)
        case Task.RECALL:
            return Recall(N, training.symbols, training.pairs)
        case Task.INDUCTION:
            return Induction(N, training.symbols)
        case Task.LISTOPS:
            return ListOps(N)
        case Task.BYTES:
            return Text(read_corpus(training.data) if training.data else python_sources(), N)
        case Task.PIXELS:
            return Pixels(load_images(training.images, training.data))
        case Task.SPEECH:
            return SoundFiles(training.data, N) if training.data else Tones(N, training.symbols)
