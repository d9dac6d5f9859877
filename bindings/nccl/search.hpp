// Finds the file from which this process has loaded libnccl.so.2, or would load it.
// The loader itself cannot be asked: it would answer that libnccl.so.2 is loaded
// already, which is this library.
#pragma once

#include <string>
#include <vector>

namespace symm::nccl {
// The file that this library was loaded from.
std::string own_file();
// The files of this process whose name begins with "libnccl.so".
std::vector<std::string> mapped_files();
// Files `soname` that are there, in the order in which they are to be tried:
//  1. in the DT_RPATH or DT_RUNPATH of the files of this process that need `soname`, as
//     libtorch_cuda.so does;
//  2. in those of the other files, which may open it later, as the plug-in of JAX does;
//  3. in nvidia/nccl/lib beside the package of Python that this library is in;
//  4. in the folders of LD_LIBRARY_PATH and of the system;
//  5. where /etc/ld.so.cache says.
std::vector<std::string> candidates(const char* soname);
// The entries of an image of /etc/ld.so.cache for `soname` and this processor. Either form of
// the cache is read, that of glibc before 2.32 and the present one.
std::vector<std::string> in_cache(const std::string& image, const std::string& soname);
}  // namespace symm::nccl
