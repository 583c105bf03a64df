#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A service manager as small as can be, in the way of systemd: starts a program, hears what it says, keeps descriptors
for it, and starts it again with them when it has crashed.

usage: manager.py DIRECTORY [--watchdog MICROSECONDS] COMMAND...

DIRECTORY/log gets a line for each thing that happens. SIGTERM ends the program, and then the manager. SIGUSR1 unbinds
every queue whose socket is kept, as an ill-behaved holder of it might.
"""

import array
import fcntl
import os
import signal
import socket
import struct
import sys

FIRST_DESCRIPTOR = 3  # where the program expects them


def unbind_message(queue: int) -> bytes:
    """nlmsghdr, nfgenmsg, and as an attribute the command, all as in linux/netfilter/nfnetlink_queue.h."""
    header = struct.pack("=IHHII", 28, 3 << 8 | 2, 1, 0, 0)
    return header + struct.pack(">BBH", 0, 0, queue) + struct.pack("=HHBBH", 8, 1, 2, 0, 0)


class Manager:
    def __init__(self, directory: str, watchdog_us: str | None, command: list[str]) -> None:
        self.directory = directory
        self.watchdog_us = watchdog_us
        self.command = command
        self.kept: list[tuple[str, int]] = []
        self.pid = 0
        self.ending = False
        self.log_file = open(os.path.join(directory, "log"), "w", buffering=1, encoding="utf-8")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(directory, "notify"))

    def log(self, line: str) -> None:
        self.log_file.write(line + "\n")

    def start(self) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            self.become_program()
        self.log(f"started {self.pid}")

    def become_program(self) -> None:
        """The descriptors that are kept go to 3, 4, ...; those that lie there already must not be written over."""
        environment = dict(os.environ, NOTIFY_SOCKET=os.path.join(self.directory, "notify"))
        if self.watchdog_us:
            environment |= {"WATCHDOG_USEC": self.watchdog_us, "WATCHDOG_PID": str(os.getpid())}
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for _, fd in self.kept]
        for i, fd in enumerate(high):
            os.dup2(fd, FIRST_DESCRIPTOR + i, inheritable=True)
        if self.kept:
            environment |= {
                "LISTEN_PID": str(os.getpid()),
                "LISTEN_FDS": str(len(self.kept)),
                "LISTEN_FDNAMES": ":".join(name for name, _ in self.kept),
            }
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(self.command[0], self.command, environment)

    def hear(self) -> None:
        data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(16 * 4))
        descriptors = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) // 4 * 4])
        fields = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
        name = fields.get("FDNAME", "")
        if "FDSTOREREMOVE" in fields:
            for other, fd in self.kept:
                if other == name:
                    os.close(fd)
            self.kept = [(other, fd) for other, fd in self.kept if other != name]
        elif "FDSTORE" in fields:
            self.kept += [(name, fd) for fd in descriptors]
            self.log(f"keeps {name}")
        for key in ("READY", "RELOADING", "STOPPING", "WATCHDOG"):
            if key in fields:
                self.log(key)

    def unbind_all(self) -> None:
        for name, fd in self.kept:
            if name.startswith("queue-"):
                number = int(name.removeprefix("queue-"))
                with socket.socket(fileno=os.dup(fd)) as queue:
                    queue.sendto(unbind_message(number), (0, 0))
                self.log(f"unbound {name}")

    def take_end(self) -> bool:
        """Has the program ended for good?"""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        code = os.waitstatus_to_exitcode(status)
        self.log(f"ended {code}")
        if code >= 0 or self.ending:
            return True
        self.start()
        return False

    def run(self) -> None:
        signals = [signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1]
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self.socket.settimeout(0.005)
        self.start()
        while True:
            got = signal.sigtimedwait(signals, 0)
            if got and got.si_signo == signal.SIGTERM:
                self.ending = True
                os.kill(self.pid, signal.SIGTERM)
            elif got and got.si_signo == signal.SIGUSR1:
                self.unbind_all()
            if self.take_end():
                return
            try:
                self.hear()
            except TimeoutError:
                pass


def main() -> None:
    arguments = sys.argv[1:]
    directory = arguments.pop(0)
    watchdog_us = None
    if arguments[0] == "--watchdog":
        watchdog_us = arguments[1]
        arguments = arguments[2:]
    Manager(directory, watchdog_us, arguments).run()


if __name__ == "__main__":
    main()
