// SPDX-License-Identifier: Apache-2.0
#include "tools/host/host.hpp"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/text.hpp"

namespace symm::tool {
namespace {

void draw_parts(const Part& part, const std::string& indent, std::string& out) {
  for (size_t i = 0; i < part.parts.size(); ++i) {
    const Part& child = part.parts[i];
    const bool last = i + 1 == part.parts.size();
    out += indent + (last ? "└─ " : "├─ ") + child.name + (child.detail.empty() ? "" : "  " + child.detail) + "\n";
    draw_parts(child, indent + (last ? "   " : "│  "), out);
  }
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  std::string text = value == nullptr ? "" : value;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string list(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  return text;
}

// All cores below one cache are one line: there may be many.
Part cores_below(hwloc_topology_t topology, hwloc_obj_t object) {
  hwloc_obj_t first = nullptr;
  hwloc_obj_t last = nullptr;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (first == nullptr) first = core;
    last = core;
  }
  Part part;
  part.detail = "processors " + list(object->cpuset);
  if (first == nullptr) {
    part.name = "cores unknown";
    return part;
  }
  const unsigned count = last->logical_index - first->logical_index + 1;
  const auto threads = static_cast<unsigned>(hwloc_bitmap_weight(object->cpuset)) / count;
  part.name = count == 1 ? "core " + std::to_string(first->logical_index)
                         : "cores " + std::to_string(first->logical_index) + "-" + std::to_string(last->logical_index);
  if (threads > 1) part.detail += ", " + std::to_string(threads) + " per core";
  return part;
}

bool shown(hwloc_obj_type_t type) {
  return type == HWLOC_OBJ_PACKAGE || type == HWLOC_OBJ_DIE || type == HWLOC_OBJ_L3CACHE || type == HWLOC_OBJ_NUMANODE;
}

Part describe(hwloc_obj_t object) {
  const std::string number = " " + std::to_string(object->logical_index);
  switch (object->type) {
    case HWLOC_OBJ_PACKAGE: return {"package" + number, info(object, "CPUModel"), {}};
    case HWLOC_OBJ_DIE: return {"die" + number, "", {}};
    case HWLOC_OBJ_L3CACHE: return {"L3" + number, format_bytes(object->attr->cache.size), {}};
    case HWLOC_OBJ_NUMANODE:
      return {"NUMA node " + std::to_string(object->os_index), format_bytes(object->attr->numanode.local_memory), {}};
    default: return {"machine", "", {}};
  }
}

bool anything_shown_below(hwloc_obj_t object) {
  for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling)
    if (shown(child->type) || child->memory_arity > 0 || anything_shown_below(child)) return true;
  return false;
}

void add_children(hwloc_topology_t topology, hwloc_obj_t object, Part& part) {
  for (hwloc_obj_t memory = object->memory_first_child; memory != nullptr; memory = memory->next_sibling)
    if (memory->type == HWLOC_OBJ_NUMANODE) part.parts.push_back(describe(memory));
  if (!anything_shown_below(object)) {
    part.parts.push_back(cores_below(topology, object));
    return;
  }
  for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling) {
    if (shown(child->type)) {
      part.parts.push_back(describe(child));
      add_children(topology, child, part.parts.back());
    } else {
      add_children(topology, child, part);  // groups and the like: their parts stand in their place
    }
  }
}

}  // namespace

std::string draw(const Part& root) {
  std::string out = root.name + (root.detail.empty() ? "" : "  " + root.detail) + "\n";
  draw_parts(root, "", out);
  return out;
}

nlohmann::json to_json(const Part& part) {
  nlohmann::json out{{"name", part.name}};
  if (!part.detail.empty()) out["detail"] = part.detail;
  for (const Part& child : part.parts) out["parts"].push_back(to_json(child));
  return out;
}

Part host_tree() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  const hwloc_obj_t machine = hwloc_get_root_obj(raw);
  Part root{"machine", format_bytes(machine->total_memory), {}};
  add_children(raw, machine, root);
  return root;
}

std::vector<cpu_set_t> usable_cores() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  std::vector<cpu_set_t> cores;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (hwloc_cpuset_to_glibc_sched_affinity(raw, core->cpuset, &set, sizeof set) == 0) cores.push_back(set);
  }
  if (cores.empty()) throw std::runtime_error("hwloc finds no core that this process may use");
  return cores;
}

}  // namespace symm::tool
