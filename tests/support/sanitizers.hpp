// What a test can ask of the sanitizer that it was built with.
#pragma once

#if defined(__has_feature)
#define SYMM_HAS_FEATURE(name) __has_feature(name)
#else
#define SYMM_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SYMM_HAS_FEATURE(address_sanitizer)
#define SYMM_UNDER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) || SYMM_HAS_FEATURE(thread_sanitizer)
#define SYMM_UNDER_TSAN 1
#endif
#ifdef SYMM_UNDER_ASAN
#define SYMM_NOT_UNDER_ASAN(why) GTEST_SKIP() << (why)
#else
#define SYMM_NOT_UNDER_ASAN(why) static_cast<void>(0)
#endif
#ifdef SYMM_UNDER_TSAN
#define SYMM_NOT_UNDER_TSAN(why) GTEST_SKIP() << (why)
#else
#define SYMM_NOT_UNDER_TSAN(why) static_cast<void>(0)
#endif
