"""A worker process: receives tasks from its replica over a socket pair, and sends their results back.

A calculation that takes too long is ended with its process, which a thread could not be.
"""

import sys
from multiprocessing.connection import Connection

from setwise.errors import SetwiseError, Unattainable
from setwise.service.workers.tasks import Task  # loads all tasks before the worker says that it is ready

READY = "ready"


def main(connection: Connection) -> None:
    """Say that everything is loaded, then compute task after task until the replica goes."""
    connection.send(READY)
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            reply = task.result()
        except SetwiseError as error:
            reply = error
        except (ArithmeticError, MemoryError, ValueError) as error:
            reply = Unattainable(f"the calculation cannot be done ({type(error).__name__})")
        connection.send(reply)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
