#include "core/base/failure_codec.hpp"

namespace symm {
namespace {
constexpr int32_t kLowestStatus = -64;  // room for the statuses of newer libraries

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }
}  // namespace

void encode(Writer& out, const Failure& failure, size_t most_text) {
  size_t length = std::min(failure.message.size(), most_text);
  while (length > 0 && length < failure.message.size() && continues_character(failure.message[length])) --length;
  std::string text = failure.message.substr(0, length);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  out.numbers(failure.status, failure.rank, std::max<int64_t>(failure.pid, 0), std::max(failure.os_error, 0),
      std::max(failure.cuda_result, 0));
  out.text(text);
}

const char* decode(Reader in, Failure& failure, size_t most_text) {
  if (in.left() < kFailureHeader || in.left() > kFailureHeader + most_text) return "failure of wrong length";
  in.numbers(failure.status, failure.rank, failure.pid, failure.os_error, failure.cuda_result);
  const auto status = static_cast<int32_t>(failure.status);
  failure.message = in.text(in.left());
  if (status > 0 || status < kLowestStatus) return "failure with an impossible status";
  if (failure.rank < -1) return "failure with an impossible rank";
  if (failure.pid < 0) return "failure with an impossible pid";
  if (failure.os_error < 0 || failure.cuda_result < 0) return "failure with an impossible error number";
  return is_clean(failure.message) ? nullptr : "failure with control characters";
}
}  // namespace symm
