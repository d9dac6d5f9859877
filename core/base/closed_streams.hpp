// The numbers of standard streams that a program has closed, against libraries that
// open descriptors of their own (UCX, NCCL) and know nothing of that. A connection of
// theirs that got such a number would take what the program writes to the stream.
#pragma once

#include <memory>

namespace symm {
class ClosedStreams;

// Makes the numbers of closed standard streams lead to a file that can be neither read
// nor written, until the last of these objects is destroyed. An object is held from
// before a library is loaded until after its last connection is closed, since such
// libraries connect at any time.
std::shared_ptr<const ClosedStreams> hold_closed_streams();
}  // namespace symm
