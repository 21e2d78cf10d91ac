"""A process that says something else than a fleet process: events of jobs that nobody gave it, and then no message at all."""

import socket
import sys

from terracrew.fleet import messages
from terracrew.fleet.messages import CloudAnswered, LinePrinted, StepDone, TokenWanted, WorkEnded

if __name__ == "__main__":
    connection = socket.socket(fileno=int(sys.argv[2]))
    connection.recv(4)
    for message in (
        WorkEnded("fjb_of_somebody_else", 1, "succeeded"),
        WorkEnded("fjb_1", 7, "succeeded"),
        LinePrinted("fjb_1", 7, "a line of another attempt"),
        StepDone("fjb_of_somebody_else", 1, "role", "", ""),
        CloudAnswered(99),
        TokenWanted(1, "cid_of_somebody_else"),
    ):
        connection.sendall(messages.encoded(message))
    connection.sendall((1 << 31).to_bytes(4))
    connection.recv(1 << 20)
    while connection.recv(1 << 20):
        pass
