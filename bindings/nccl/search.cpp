// Reads the loader's tables: the files of this process, their search paths, the loader's own
// folders and its cache.
#include "bindings/nccl/search.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "bindings/nccl/open_file.hpp"

namespace symm::nccl {
namespace {
// The entries of the dynamic section of a file of this process.
struct Mapped {
  std::string file;
  std::vector<std::string> needed;
  std::string search_path;
};

// glibc has turned the addresses of most dynamic sections into pointers; that of the vdso keeps
// offsets.
const char* strings_of(const dl_phdr_info& file, const ElfW(Dyn) * entry) {
  ElfW(Addr) at = entry->d_un.d_ptr;
  if (at < file.dlpi_addr) at += file.dlpi_addr;
  return reinterpret_cast<const char*>(at);
}

Mapped describe(const dl_phdr_info& file) {
  Mapped mapped{file.dlpi_name, {}, {}};
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < file.dlpi_phnum; ++i) {
    if (file.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    dynamic = reinterpret_cast<const ElfW(Dyn)*>(file.dlpi_addr + file.dlpi_phdr[i].p_vaddr);
  }
  if (dynamic == nullptr) return mapped;

  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = strings_of(file, entry);
  }
  if (strings == nullptr) return mapped;

  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) mapped.needed.emplace_back(strings + entry->d_un.d_val);
    if (entry->d_tag != DT_RPATH && entry->d_tag != DT_RUNPATH) continue;
    if (!mapped.search_path.empty()) mapped.search_path += ':';
    mapped.search_path += strings + entry->d_un.d_val;
  }
  return mapped;
}

std::vector<Mapped> all_mapped() {
  std::vector<Mapped> all;
  const auto add = [](dl_phdr_info* file, size_t, void* to) {
    static_cast<std::vector<Mapped>*>(to)->push_back(describe(*file));
    return 0;
  };
  dl_iterate_phdr(add, &all);

  // The program comes first, without a name.
  std::error_code ignored;
  if (!all.empty() && all.front().file.empty()) {
    all.front().file = std::filesystem::read_symlink("/proc/self/exe", ignored);
  }
  return all;
}

std::string folder_of(const std::string& file) {
  return std::filesystem::path(file).parent_path().string();
}

// The folders of a search path of `file`, in which $ORIGIN is the folder of that file.
std::vector<std::string> folders_in(const std::string& search_path, const std::string& file) {
  std::vector<std::string> folders;
  for (size_t begin = 0; begin <= search_path.size();) {
    const size_t end = std::min(search_path.find(':', begin), search_path.size());
    std::string folder = search_path.substr(begin, end - begin);
    begin = end + 1;

    for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
      const size_t at = folder.find(word);
      if (at != std::string::npos) folder.replace(at, word.size(), folder_of(file));
    }

    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

// The folders that the loader searches for a file that this library needs: LD_LIBRARY_PATH as
// it was when the process began, and the folders of the system.
std::vector<std::string> loaders_folders() {
  Dl_info info{};
  link_map* self = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&own_file), &info, reinterpret_cast<void**>(&self),
          RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  Dl_serinfo size{};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};

  const auto memory = std::make_unique<char[]>(size.dls_size);
  auto* const list = reinterpret_cast<Dl_serinfo*>(memory.get());
  *list = size;
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, list) != 0 || dlinfo(self, RTLD_DI_SERINFO, list) != 0) {
    return {};
  }
  std::vector<std::string> folders;
  for (unsigned i = 0; i < list->dls_cnt; ++i) {
    folders.emplace_back(list->dls_serpath[i].dls_name);
  }
  return folders;
}

// The contents of a file; empty if it cannot be read.
std::string contents(const char* file) {
  std::string all;
  const int fd = open_file(file, O_RDONLY);
  if (fd < 0) return all;
  char piece[65536];
  for (ssize_t got = read(fd, piece, sizeof piece); got > 0; got = read(fd, piece, sizeof piece)) {
    all.append(piece, static_cast<size_t>(got));
  }
  close(fd);
  return all;
}

// The header of the cache and one of its entries, which follow each other. Offsets of strings
// count from the header.
struct CacheHeader {
  char magic[20];
  uint32_t entries;
  uint32_t string_bytes;
  uint32_t unused[5];
};
struct CacheEntry {
  int32_t flags;
  uint32_t key;
  uint32_t value;
  uint32_t unused;
  uint64_t hardware;
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
// A library of glibc for 64 bits of this processor.
#if defined(__x86_64__)
constexpr int32_t kCacheFlags = 0x0303;
#else
constexpr int32_t kCacheFlags = 0x0a03;
#endif
}  // namespace

std::string own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_file), &info) == 0) return {};
  return info.dli_fname;
}

std::vector<std::string> mapped_files() {
  std::vector<std::string> files;
  for (const Mapped& mapped : all_mapped()) {
    const std::string name = std::filesystem::path(mapped.file).filename().string();
    if (name.starts_with("libnccl.so")) files.push_back(mapped.file);
  }
  return files;
}

std::vector<std::string> in_cache(const std::string& image, const std::string& soname) {
  std::vector<std::string> found;
  const size_t begin = image.find(kCacheMagic);
  if (begin == std::string::npos || image.size() - begin < sizeof(CacheHeader)) return found;

  CacheHeader header;
  std::memcpy(&header, image.data() + begin, sizeof header);
  const size_t room = image.size() - begin - sizeof header;
  if (room / sizeof(CacheEntry) < header.entries) return found;

  const auto string_at = [&](uint32_t offset) -> std::string {
    if (offset >= image.size() - begin) return {};
    const char* const text = image.data() + begin + offset;
    return {text, strnlen(text, image.size() - begin - offset)};
  };
  for (size_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    std::memcpy(&entry, image.data() + begin + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.flags == kCacheFlags && string_at(entry.key) == soname) {
      found.push_back(string_at(entry.value));
    }
  }
  return found;
}

std::vector<std::string> candidates(const char* soname) {
  const std::vector<Mapped> all = all_mapped();
  std::vector<std::string> folders;
  const auto add = [&](std::vector<std::string> more) {
    std::move(more.begin(), more.end(), std::back_inserter(folders));
  };
  const auto needs_it = [&](const Mapped& mapped) {
    return std::find(mapped.needed.begin(), mapped.needed.end(), soname) != mapped.needed.end();
  };

  for (const bool wanted : {true, false}) {
    for (const Mapped& mapped : all) {
      if (needs_it(mapped) == wanted) add(folders_in(mapped.search_path, mapped.file));
    }
  }
  add({folder_of(own_file()) + "/../../../nvidia/nccl/lib"});
  add(loaders_folders());

  std::vector<std::string> files;
  std::error_code ignored;
  for (const std::string& folder : folders) {
    const std::string file = folder + "/" + soname;
    if (std::filesystem::exists(file, ignored)) files.push_back(file);
  }
  for (const std::string& file : in_cache(contents("/etc/ld.so.cache"), soname)) {
    files.push_back(file);
  }
  return files;
}
}  // namespace symm::nccl
