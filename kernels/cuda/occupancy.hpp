// The number of blocks of a group's launches that have room on a device beside those
// of other groups.
#pragma once

#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
// The blocks of 512 threads, two for each of the device's `multiprocessors`, that a launch may
// have in a group of `size` ranks, of which `on_one` share one device. Kernels of at most
// `tuning.groups` groups work on a device at a time.
//
// Definitions.
//   A block is resident from when it comes onto the device until it ends. Blocks wait for those
//   of other ranks, and stay resident meanwhile.
//   A group is kept out of a device if none of its blocks has room there.
//   A block counts by its threads. But a device spreads small blocks over all multiprocessors,
//   and what is left is then in pieces, in none of which a large block has room. So where ranks
//   share a device, and many kernels wait on it, each block counts as a whole multiprocessor
//   (Facts::shares_device): wherever the device puts the blocks of all groups but one,
//   multiprocessors are left on which nothing is, and on an empty one any block has room.
//
// Invariant: of the groups at work, one at least is kept out of none of its devices. Were group
// A in the way of group B on one device, and B in the way of A on another, both would wait for
// ever. Some blocks of a kernel are enough, since those that have come in end and let more in.
//
// Why it holds:
//   1. Groups of three ranks or more, and those that share a device, take a share of the
//      multiprocessors that leaves room for all groups: all groups but one divide the device,
//      and one part in 32 is left for the last, and for barriers. With 132 multiprocessors and
//      three groups, two have 128 blocks each, and there is room for 8 more.
//   2. Groups of two ranks take the share that they would have with one group fewer. So a device
//      may keep one group out, and does so only where a group of two ranks is at work; and what
//      keeps out a group of two ranks is another group of two ranks.
//   3. Suppose that every group were kept out somewhere. Each group of two ranks would then be
//      kept out of a device of its own, on which two such groups at least are at work.
//   4. As each of them is on two devices, these would be all the devices that have such groups,
//      and each keeps out one of them.
//   5. So groups of more ranks would be kept out nowhere, which contradicts step 3.
int max_blocks_of(int multiprocessors, int size, int on_one, const Tuning& tuning);
}  // namespace symm::cuda
