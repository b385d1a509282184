"""Simulated boards: real output at the wire, and faults on request.

A board is a deterministic state machine in virtual time (`lab.virtual.sim.board`): the same seed and the same inputs
give the same bytes at the same instants. Its parts, each on those below it:

    kind                           boards of a bench; begin to read here
    backend                        a board on the bench's UARTs and power input, in the host's time
    boot   faults   tester         ROM, loaders and Linux; what goes wrong; the PC at the other end
    board   linux   uboot          power input, UARTs and a computer; the programs that it runs
    editor   serialload   faulthooks
    computer                       state of one power cycle; prints, waits, hears
    model   machine   sh   script  board type and release; UARTs and time; the shells' language; texts of a boot
    program   timing   setup   storage   network
"""
