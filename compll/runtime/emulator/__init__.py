"""The emulator's C++: headers for generated CUDA and the scheduler of its threads. Built by devices/emulator.py."""
