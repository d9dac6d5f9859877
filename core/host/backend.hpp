// SPDX-License-Identifier: Apache-2.0
//
// Back end 1: memory shared between processes of one machine.
#pragma once

#include <memory>

#include "core/backend/backend.hpp"

namespace symm::host {

std::shared_ptr<Backend> open();

}  // namespace symm::host
