// The work of launches of the kernels in kernels/cuda/messages.cu and exchange.cu, from their
// arguments.
#pragma once

#include <functional>

namespace fake_cuda {
std::function<bool()> pass_messages(const void* arguments);
std::function<bool()> pass_large_messages(const void* arguments);
std::function<bool()> list_messages(const void* arguments);
std::function<bool()> exchange(const void* arguments);
std::function<bool()> exchange_in_large(const void* arguments);
}  // namespace fake_cuda
