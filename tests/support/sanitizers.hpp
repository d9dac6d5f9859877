// SPDX-License-Identifier: Apache-2.0
//
// What a test can ask of the sanitizer that it was built with.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define SYMM_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SYMM_UNDER_ASAN 1
#endif
#endif
