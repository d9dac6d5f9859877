// SPDX-License-Identifier: Apache-2.0
//
// What must agree on all ranks when they make a call: in one comparable form, as a number of 32 bits that rides in the entry
// line, and in words for the error that says who differs.
#pragma once

#include <string>

#include "core/backend/backend.hpp"
#include "core/host/control.hpp"

namespace symm::host {

DetailLine detail_of(const CollectiveCall& call);
uint32_t signature_of(const DetailLine& detail);
std::string describe(const DetailLine& detail);

}  // namespace symm::host
