// What the tool does before anything else.
#pragma once

namespace symm::tool {
// Makes the numbers of closed standard streams lead to a file that can be neither read nor written,
// until the process ends: a file that the tool opens is never taken for a stream.
void hold_closed_streams();
// Makes a write beyond the limit on file sizes (ulimit -f) fail, instead of ending the process by
// SIGXFSZ.
void fail_beyond_file_sizes();
// Gives a program that is about to be run the signals that this process was started with.
void restore_file_size_signal();
}  // namespace symm::tool
