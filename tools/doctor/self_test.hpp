// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace symm::tool {

// What each of the two ranks of the doctor's self test does: `symm self-test`, under `symm run`.
int run_self_test_rank();

}  // namespace symm::tool
