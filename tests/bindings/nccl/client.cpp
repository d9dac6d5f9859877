// A small program that uses NCCL as programs do. With -DLINKED it is linked to libnccl.so.2.
//
// client step ...     each step says which file answers:
//
//   linked          a call of the program itself
//   soname          dlopen("libnccl.so.2")
//   noload          dlopen("libnccl.so.2", RTLD_NOLOAD)
//   path:FILE       dlopen(FILE)
//
// and at last which files with the name of NCCL are loaded.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <string>

extern "C" int ncclGetVersion(int* version);

namespace {
using GetVersion = int (*)(int*);

void say(const char* step, GetVersion call) {
  if (call == nullptr) {
    std::printf("%s: nobody\n", step);
    return;
  }
  int version = 0;
  const int result = call(&version);
  std::printf("%s: result %d version %d\n", step, result, version);
}

void say_file(const char* step, void* library, bool is_default = false) {
  if (library == nullptr && !is_default) return say(step, nullptr);
  const auto call = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  say(step, call);
  Dl_info info{};
  if (call != nullptr && dladdr(reinterpret_cast<void*>(call), &info) != 0) {
    std::printf("%s: file %s\n", step, info.dli_fname);
  }
}
}  // namespace

int main(int count, char** steps) {
  for (int i = 1; i < count; ++i) {
    const std::string step = steps[i];
    if (step == "soname") say_file("soname", dlopen("libnccl.so.2", RTLD_NOW));
    if (step == "noload") say_file("noload", dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD));
    if (step.rfind("path:", 0) == 0) say_file("path", dlopen(steps[i] + 5, RTLD_NOW));
#ifdef LINKED
    if (step == "linked") {
      say("linked", &ncclGetVersion);
      say_file("linked", RTLD_DEFAULT, true);
    }
#endif
  }

  const auto list = [](dl_phdr_info* file, size_t, void*) {
    if (std::strstr(file->dlpi_name, "nccl") != nullptr) std::printf("has %s\n", file->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(list, nullptr);
}
