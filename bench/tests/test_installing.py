"""What a comparison compiles before it measures, how it starts MPI programs, and where it writes."""

import contextlib
import fcntl
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from comparison import installing, machine, participants
from experiments import libraries


class OurOwnPrograms(unittest.TestCase):
    def compiles(self, source: str, *flags: str) -> None:
        command = [installing.compiler(), *installing.COMPILE, *flags, "-Werror", "-fsyntax-only", str(installing.SOURCES / source)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, f"{' '.join(command)}\n{ended.stderr}")

    def test_compile_in_every_variant(self):
        for variant, flags in installing.RING_VARIANTS.items():
            with self.subTest(variant):
                self.compiles("ring.c", *flags)
        self.compiles("futex.c")


class TwoAtATime(unittest.TestCase):
    def test_the_second_one_touches_nothing(self):
        with tempfile.TemporaryDirectory() as peers, open(Path(peers) / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            second = subprocess.run(
                [installing.BENCH / "compare", "--install"],
                env={**os.environ, "DECK_PEERS": peers},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((second.returncode, os.listdir(peers)), (1, ["lock"]))
            self.assertIn("another one is running", second.stderr)


class WrongOptions(unittest.TestCase):
    def test_are_told_before_anything_is_installed_or_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            peers = Path(folder) / "peers"
            for options in (["--quik"], ["--only", "speed"], ["--rep", folder], ["--out", "/dev/null/run"], ["--report=/nowhere"]):
                with self.subTest(options):
                    ended = subprocess.run(
                        [installing.BENCH / "compare", *options],
                        env={**os.environ, "DECK_PEERS": str(peers)},
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    self.assertEqual((ended.returncode, peers.exists()), (2, False))
                    self.assertIn("bench/compare: error: ", ended.stderr)


class MpiLibraries(unittest.TestCase):
    def test_open_mpi_lets_programs_pin_themselves_and_waits_politely_only_where_asked(self):
        library = installing.open_mpi("mpicc", Path("mpirun"), {"OPAL_PREFIX": "/there"})
        self.assertIn("--bind-to none --oversubscribe", " ".join(library.options))
        self.assertEqual(library.environment["OPAL_PREFIX"], "/there")
        self.assertEqual(library.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], "1")
        with patch("comparison.installing.mpi_peer", return_value=(Path("program"), library)):
            made, missing = participants.prepare(["openmpi", "openmpi-ob1", "openmpi-ob1-yield"])
        self.assertEqual(missing, {})
        commands = {name: " ".join(one.command("rate", "0,1", 0.1, (8,))) for name, one in made.items()}
        yielding = [name for name, command in commands.items() if "mpi_yield_when_idle" in command]
        self.assertEqual(yielding, ["openmpi-ob1-yield"])
        self.assertEqual([name for name, command in commands.items() if "pml ucx" in command], ["openmpi"])

    def test_members_that_are_threads_are_those_of_two_processes(self):
        library = installing.open_mpi("mpicc", Path("mpirun"), {})
        with patch("comparison.installing.mpi_peer", return_value=(Path("program"), library)):
            made, _ = participants.prepare(["openmpi", "openmpi-ob1-yield-threads", "intelmpi-threads"])
        commands = {name: " ".join(one.command("collectives", "0,1", 5, (8,))) for name, one in made.items()}
        self.assertIn("-n 8 ", commands["openmpi"])
        self.assertIn(" program collectives 0,1 5 8", commands["openmpi"])
        for name in ("openmpi-ob1-yield-threads", "intelmpi-threads"):
            self.assertIn("-n 2 ", commands[name])
            self.assertIn(" program thread-collectives 0,1 5 8", commands[name])
        self.assertIn("pml ob1", commands["openmpi-ob1-yield-threads"])
        self.assertIn("mpi_yield_when_idle", commands["openmpi-ob1-yield-threads"])
        self.assertEqual(made["intelmpi-threads"].environment["I_MPI_THREAD_YIELD"], "2")


    def test_who_installs_one_says_its_own_name(self):
        with tempfile.TemporaryDirectory() as peers, patch("comparison.installing.PEERS", Path(peers)):
            with patch("comparison.installing._run"), contextlib.redirect_stderr(io.StringIO()) as said:
                installing.mpi.cache_clear()
                libraries.find("mpich")
        installing.mpi.cache_clear()
        self.assertEqual(said.getvalue(), "papers: installing mpich==5.0.2\n")


class TheMachine(unittest.TestCase):
    def test_a_run_gets_a_folder_of_its_own(self):
        with tempfile.TemporaryDirectory() as bench, patch("comparison.machine.BENCH", Path(bench)):
            names = []
            for _ in range(3):
                folder = machine.unused("today")
                folder.mkdir(parents=True)
                names.append(str(folder.relative_to(bench)))
        self.assertEqual(names, ["runs/today", "runs/today-2", "runs/today-3"])

    def test_a_folder_that_cannot_be_made_or_written_to_is_found_out_without_a_trace(self):
        with tempfile.TemporaryDirectory() as there:
            folder = Path(there) / "runs" / "today"
            self.assertIsNone(machine.unwritable(folder))
            self.assertEqual(os.listdir(there), [])
            (Path(there) / "runs").touch()
            self.assertIn("Not a directory", machine.unwritable(folder))

    def test_is_described_with_the_command_of_the_program_that_asks(self):
        with patch.object(sys, "argv", ["anything", "--quick"]):
            self.assertEqual(machine.describe("bench/papers")["command"], "bench/papers --quick")

    def test_is_described_also_where_there_is_no_git(self):
        with patch.dict(os.environ, {"PATH": "/nowhere"}):
            self.assertEqual(machine.describe("bench/papers")["commit"], "not told")
